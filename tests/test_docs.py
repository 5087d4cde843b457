"""Every Python example in the documents runs, and prints what the page says it prints.

A fence marked `python` is run; the blocks of a page run in order and share their names. A fence marked `text` right
after it is what it prints (`...` stands for anything). A page that says `spark` gets the session under that name.
A fence marked `sh` is run if it brings its own files and needs no Spark.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.spark.conftest import spark  # noqa: F401  (a fixture)

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

FENCE = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n*^```text\n(?P<prints>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Example(NamedTuple):
    line: int
    code: str
    prints: str | None


def examples(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    return [Example(text.count("\n", 0, m.start()) + 2, m["code"], m["prints"]) for m in FENCE.finditer(text)]


def pages() -> list[Any]:
    found_pages = []
    for page in PAGES:
        found = examples(page)
        if found:
            needs_spark = any(re.search(r"\bspark\b", example.code) for example in found)
            found_pages.append(pytest.param(page, id=page.name, marks=[pytest.mark.spark] if needs_spark else []))
    return found_pages


@pytest.mark.parametrize("page", pages())
def test_the_examples_of_a_page_run_and_print_what_it_says(
    page: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    if request.node.get_closest_marker("spark"):
        names["spark"] = request.getfixturevalue("spark")
    for line, code, prints in examples(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # Blank lines first, so that a traceback names the line of the page.
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)
        if prints is not None and not doctest.OutputChecker().check_output(prints, printed.getvalue(), SAME):
            pytest.fail(f"{page.name}, line {line}: the page says\n{prints}\nand it prints\n{printed.getvalue()}")


def test_the_shell_of_the_tutorial_that_needs_no_spark_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    fences = [code for code in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) if "--engine memory" in code]
    assert len(fences) == 1
    ours = f'dwell() {{ "{sys.executable}" -m dwell "$@"; }}\n'
    ran = subprocess.run(["sh", "-ec", ours + fences[0]], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1].endswith("3 operations in, 1 completed + 1 expired + 1 rejected + 0 pending")
    assert "p50 12 min 30 s" in ran.stdout


def test_links_between_pages_lead_somewhere() -> None:
    dead = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                dead.append(f"{page.name}: {target}")
    assert dead == []
