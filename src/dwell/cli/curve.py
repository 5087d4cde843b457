"""What would other timeouts have done? The share each would have expired, and which one keeps enough alive.

The operations are settled as if each candidate were everyone's delay; their own delay_ms is only marked as chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dwell.cli import session
from dwell.cli.argument import duration_ms, share
from dwell.cli.inputs import Inputs
from dwell.cli.output import LocalFiles, whole_or_nothing
from dwell.cli.settle import add_inputs
from dwell.report import words

if TYPE_CHECKING:
    import argparse

    from dwell.cli.curve_file import Candidate, CurveFile

NAME = "curve"
HELP = "what other timeouts would have done"
EXAMPLE = """\
  dwell curve out/orders/operations out/orders/events --keep 99.9% --picture out/curve.svg
  dwell curve out/orders/operations out/orders/events --delays 5m,15m,30m,1h --engine memory"""

ROWS_SHOWN = 24
BAR = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser)
    parser.add_argument(
        "--delays",
        type=lambda text: [duration_ms(one) for one in text.split(",")],
        metavar="T,T,…",
        help="the candidates (default: 48 of them around the delays of the operations)",
    )
    parser.add_argument(
        "--keep",
        type=share,
        action="append",
        metavar="SHARE",
        help="which timeout keeps this share alive? (default: 90%%, 99%%, 99.9%%)",
    )
    parser.add_argument("--picture", metavar="FILE", help="draw it too, as SVG")
    parser.add_argument("--json", metavar="FILE", help="write it too, for `dwell report --curve`")
    session.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    inputs = Inputs.of(args)
    if args.engine == "memory":
        from dwell.cli.memory_curve import curve_in_memory

        found = curve_in_memory(inputs, args.delays, args.keep)
    else:
        with session.session(args) as spark:
            from dwell.cli.table_curve import curve_of_tables
            from dwell.cli.table_input import read_tables

            found = curve_of_tables(spark, *read_tables(spark, inputs), args.delays, args.keep)
    _write(args, found)
    tell(found)
    return 0


def tell(found: CurveFile) -> None:
    print(f"{'timeout':>12}  {'expired':>12}  {'share':>9}")
    for candidate in _shown(found):
        bar = "█" * round(BAR * candidate.share)
        mark = "  ← chosen" if candidate.delay_ms == found.chosen_ms else ""
        said = words.share(candidate.expired, found.operations)
        print(f"{words.duration(candidate.delay_ms):>12}  {words.count(candidate.expired):>12}  {said:>9}  {bar}{mark}")
    longest = found.candidates[-1].delay_ms
    for keep, delay_ms in found.shortest.items():
        percent = f"{100 * float(keep):g} %"
        if delay_ms is None:
            print(f"no timeout up to {words.duration(longest)} keeps {percent} alive")
        else:
            print(f"{words.duration(delay_ms)} keeps {percent} alive ({words.count(delay_ms)} ms)")


def _shown(found: CurveFile) -> list[Candidate]:
    """Those that tell something: from the last that expires all, thinned out, the chosen one among them."""
    useful = [one for one in found.candidates if one.expired < found.operations] or found.candidates
    step = -(-len(useful) // ROWS_SHOWN)
    return [one for i, one in enumerate(useful) if i % step == 0 or one.delay_ms == found.chosen_ms]


def _write(args: argparse.Namespace, found: CurveFile) -> None:
    files = LocalFiles()
    if args.json is not None:
        with whole_or_nothing(files, args.json, overwrite=True) as partial:
            files.write_text(partial, found.as_json())
    if args.picture is not None:
        from dwell.report.page import curve_picture

        with whole_or_nothing(files, args.picture, overwrite=True) as partial:
            files.write_text(
                partial, curve_picture([(one.delay_ms, one.share) for one in found.candidates], found.chosen_ms)
            )
        print(Path(args.picture).absolute())
