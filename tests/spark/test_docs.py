"""The examples of docs/spark.md run, and print what stands below them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.spark
def test_examples(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert EXAMPLES
    names = {"spark": spark}
    for number, (example, printed) in enumerate(EXAMPLES):
        exec(compile(example, f"docs/spark.md, example {number}", "exec"), names)
        assert capsys.readouterr().out == printed
