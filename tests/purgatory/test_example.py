"""The examples do what they print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dwell.timer import BUILD

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "delayed_produce.py": """\
orders-0 moves, completed: 0
replicated: {'orders-0': 'NONE', 'orders-1': 'NONE'}
orders-1 moves, completed: 1
half a second later: {'orders-0': 'REQUEST_TIMED_OUT', 'orders-1': 'NONE'}
""",
    "delayed_fetch.py": """\
enough: True {'orders-0': b'seven b', 'orders-1': b'four'}
enough: False {'orders-0': b'', 'orders-1': b'ur'}
""",
}


@pytest.mark.parametrize("reference", ["0", "1"] if BUILD == "compiled" else ["1"])
@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_says(name: str, reference: str) -> None:
    environment = os.environ | {"DWELL_REFERENCE": reference}
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, env=environment, timeout=60
    )
    assert (done.stdout, done.stderr) == (PRINTED[name], "")
