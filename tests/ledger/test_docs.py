"""The examples of docs/ledger.md run, and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    example = EXAMPLES[number]
    exec(compile(example, f"docs/ledger.md, example {number}", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*?\)  # (.*)", example)
