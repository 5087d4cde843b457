"""Fixtures for the whole suite."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.builds import Build, load_build
from tests.skipped import pytest_sessionfinish  # noqa: F401  (a hook)

# Whatever Spark opens, here and in the programs that tests start, it opens on loopback.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture(params=["readable", "compiled"])
def build(request: pytest.FixtureRequest) -> Iterator[Build]:
    """One of the two builds of timer, asyncio, purgatory and ledger: `build.SystemTimer`, `build.Ledger`, and so on.

    While the test runs, `import dwell...` finds the modules of this build too.
    """
    build = load_build(request.param)
    with build.installed():
        yield build
