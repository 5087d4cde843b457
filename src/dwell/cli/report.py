"""Make a page of pictures from outcomes: one HTML file, no network, light and dark.

OUTCOMES is the directory `dwell settle --out` wrote, or any Parquet with the columns of an outcome. It is read in
one process in bounded memory, whatever its size. With a curve from `dwell curve --json`, or one that lies in OUTCOMES
(`dwell settle --curve`), the page shows what longer timeouts would have done too.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dwell.cli.curve_file import FILE_NAME, read_curve
from dwell.cli.output import LocalFiles, whole_or_nothing
from dwell.cli.problem import Problem
from dwell.report import words

if TYPE_CHECKING:
    import argparse

    from dwell.report.curve import Curve

NAME = "report"
HELP = "a page of pictures from outcomes"
EXAMPLE = "  dwell report out/settled --out out/report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("outcomes", metavar="OUTCOMES", help="what `dwell settle` wrote")
    parser.add_argument("--out", metavar="FILE", help="the page to write (default: report.html in OUTCOMES)")
    parser.add_argument(
        "--by", metavar="COLUMN", help="compare the values of this column (default: the keys waited for)"
    )
    parser.add_argument("--title", default="What became of the operations", help="the head line")
    parser.add_argument("--curve", metavar="FILE", help="a curve from `dwell curve --json`")


def run(args: argparse.Namespace) -> int:
    from dwell.report.figures import figures
    from dwell.report.outcome_file import open_outcomes
    from dwell.report.page import five_figures, page

    started = time.monotonic()
    rows = open_outcomes(args.outcomes)
    if args.by is not None and args.by not in rows.schema.names:
        raise Problem(f"{args.outcomes} has no column {args.by!r}; it has {', '.join(rows.schema.names)}")
    summed = figures(rows, by=args.by)
    if not summed.operations:
        raise Problem(f"{args.outcomes} holds no outcomes: there is nothing to show")
    out = args.out or _default_out(args.outcomes)
    text = page(summed, title=args.title, source=args.outcomes, asked=_curve(args))
    with whole_or_nothing(LocalFiles(), out, overwrite=True) as partial:
        Path(partial).write_text(text, encoding="utf-8")
    took = words.duration(1000 * (time.monotonic() - started))
    print(f"{words.count(summed.operations)} outcomes read in {took}", file=sys.stderr)
    for value, what in five_figures(summed):
        print(f"{value:>14}  {what}")
    print(Path(out).absolute())
    return 0


def _default_out(outcomes: str) -> str:
    if "://" in outcomes:
        return "report.html"
    place = Path(outcomes)
    # Beside the outcomes, not among them: whoever reads the directory as Parquet would stumble over it.
    return str((place if (place / "outcomes").is_dir() else place.absolute().parent) / "report.html")


def _curve(args: argparse.Namespace) -> Curve | None:
    from dwell.report.curve import Curve, Point

    file = Path(args.curve) if args.curve is not None else Path(args.outcomes) / FILE_NAME
    if args.curve is None and not file.is_file():
        return None
    found = read_curve(file)
    points = [Point(one.delay_ms, one.share) for one in found.candidates]
    return Curve(points, {float(alive): delay_ms for alive, delay_ms in found.shortest.items()})
