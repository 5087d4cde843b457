"""`dwell` is a table of contents: complete, and light to import."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import dwell


def test_every_name_of_the_contents_is_there_and_nothing_else() -> None:
    assert dwell.__all__ == sorted(dwell.__all__)
    for name in dwell.__all__:
        assert getattr(dwell, name) is not None
    public = {name for name in dir(dwell) if not name.startswith("_")}
    modules = {name for name in public if isinstance(getattr(dwell, name), ModuleType)}
    assert public - modules == set(dwell.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        dwell.Nothing  # noqa: B018


def test_importing_dwell_and_its_pytest_plugin_loads_no_layer() -> None:
    code = (
        "import sys, dwell, dwell.testing, dwell.testing.plugin; print(*sorted(m for m in sys.modules if 'dwell' in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["dwell", "dwell.testing", "dwell.testing.plugin"]


def test_importing_dwell_loads_neither_spark_nor_numpy() -> None:
    code = (
        "import sys, dwell, dwell.testing; print(sorted({'pyspark', 'numpy', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
