"""How two workers share the tests: file by file, but those of a folder that need Spark stay together.

A worker makes one Spark session for all its tests. Spark's tests wait more than they compute: both workers have some.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByFolderAndFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return str(Path(file).parent) if needs_spark(config.rootpath / file) else file

    return ByFolderAndFile(config, log)


@cache
def needs_spark(file: Path) -> bool:
    return "mark.spark" in file.read_text(encoding="utf-8")
