"""`dwell` is a table of contents: complete, and light to import."""

from __future__ import annotations

import subprocess
import sys

import dwell


def test_every_name_of_the_contents_is_there_and_nothing_else() -> None:
    assert dwell.__all__ == sorted(dwell.__all__)
    for name in dwell.__all__:
        assert getattr(dwell, name) is not None
    public = {
        name for name, value in vars(dwell).items() if not name.startswith("_") and not hasattr(value, "__path__")
    }
    modules = {name for name in public if type(getattr(dwell, name)).__name__ == "module"}
    assert public - modules == set(dwell.__all__)


def test_importing_dwell_loads_neither_spark_nor_numpy() -> None:
    code = (
        "import sys, dwell, dwell.testing; print(sorted({'pyspark', 'numpy', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
