"""The page in a real browser: all five pictures drawn, in light and in dark, without a word to the network."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from dwell.report.curve import Curve, Point
from dwell.report.figures import figures
from dwell.report.outcome_file import open_outcomes
from dwell.report.page import curve_picture, page

if TYPE_CHECKING:
    from pathlib import Path

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@pytest.fixture
def html(settled: Path) -> str:
    return page(figures(open_outcomes(str(settled))), title="Orders <of> March", source="settled")


def test_all_five_pictures_and_the_identity_are_there(html: str) -> None:
    assert html.count("<svg") == 5
    assert "1,000 operations = 900 completed + 98 expired + 2 rejected + 0 pending" in html
    assert "9.8 % ran out of time" in html
    assert "k0 expires most" in html
    assert "Orders &lt;of&gt; March" in html


def test_nothing_is_fetched(html: str) -> None:
    assert re.findall(r"""(?:src|href|url|@import)\s*[=(]?\s*["']?(https?:)?//""", html) == []


def test_a_curve_that_was_asked_for_goes_beyond_the_chosen_timeout(settled: Path) -> None:
    asked = Curve([Point(500, 0.5), Point(1000, 0.1), Point(9000, 0.02)], {0.9: 1000, 0.99: None})
    html = page(figures(open_outcomes(str(settled))), title="t", source="s", asked=asked)
    assert "1 s would keep 90 % alive" in html
    assert "9 s: 2.0 % would expire" in html
    # Between the points that were asked for it has the waits of the outcomes.
    assert re.search(r"7\d\d ms: 2\d\.\d % would expire", html)


def test_the_curve_alone_is_an_svg_file() -> None:
    from xml.etree import ElementTree

    drawn = ElementTree.fromstring(curve_picture([(500, 0.5), (1000, 0.1), (9000, 0.02)], 1000))
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the PATH")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_it(html: str, tmp_path: Path, scheme: str) -> None:
    assert BROWSER is not None
    # The page writes down what the browser made of it: how many pictures have a size, and the colour of the ground.
    probe = (
        "<script>const all=[...document.querySelectorAll('svg')];"
        "const seen=all.filter(s=>s.getBoundingClientRect().height>50).length;"
        "document.title=`drawn ${seen} on ${getComputedStyle(document.body).backgroundColor}`;</script></body>"
    )
    (tmp_path / "page.html").write_text(html.replace("</body>", probe), encoding="utf-8")
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    argv = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", *dark]
    ran = subprocess.run(
        [*argv, "--dump-dom", f"file://{tmp_path}/page.html"], capture_output=True, text=True, timeout=120, check=True
    )
    ground = "rgb(18, 22, 28)" if scheme == "dark" else "rgb(247, 248, 250)"
    assert f"<title>drawn 5 on {ground}</title>" in ran.stdout
