"""How two workers share the tests: all that need Spark go to one of them and share its session; the rest go by file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class BySession(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "spark" if needs_spark(config.rootpath / file) else file

    return BySession(config, log)


@cache
def needs_spark(file: Path) -> bool:
    return "mark.spark" in file.read_text(encoding="utf-8")
