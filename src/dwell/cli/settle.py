"""Settle operations: read OPERATIONS and EVENTS, write what became of each operation.

OPERATIONS has the columns op_id, submitted_at, delay_ms, needs and, if you like, quorum and volume; EVENTS has
key, at and, if you like, level. Columns of other names are mapped (--map op_id=order_no). A text column as `needs`
holds one key, or a JSON list: ["a", "b"] or [{"key": "a", "level": 5}]. Other columns of OPERATIONS pass through.

DIR gets outcomes/ (one row for each operation), rejected/ (those that could not be settled, with the reason) and
summary.json; it appears only when all of it is there. The last line and the exit code tell whether the ledger
identity holds: operations in = completed + expired + rejected + pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.cli import session
from dwell.cli.argument import duration, duration_ms, moment, new_place, pair
from dwell.cli.inputs import FORMATS, Inputs
from dwell.cli.problem import Problem

if TYPE_CHECKING:
    import argparse

    from dwell.cli.summary import Summary

NAME = "settle"
HELP = "what became of each operation"
EXAMPLE = """\
  dwell settle out/orders/operations out/orders/events --out out/settled
  dwell settle orders.csv payments.csv --map op_id=order_no --map submitted_at=placed_at --map needs=order_no \\
        --map key=order_no --map at=paid_at --within 30m --engine memory --out out/settled"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser)
    parser.add_argument("--out", required=True, type=new_place, metavar="DIR", help="where the outcomes go")
    parser.add_argument("--overwrite", action="store_true", help="replace DIR if it exists")
    parser.add_argument(
        "--as-of", type=moment, metavar="TIME", help="only what is known then counts; what is undecided is pending"
    )
    parser.add_argument("--curve", action="store_true", help="write the timeout curve too, for `dwell report`")
    stream = parser.add_argument_group("streams: settle what arrives, until Ctrl-C")
    stream.add_argument("--stream", action="store_true", help="read both inputs as streams")
    stream.add_argument("--checkpoint", metavar="DIR", help="where a stream keeps its place; the same one resumes it")
    stream.add_argument("--lateness", type=duration, metavar="T", help="how late a row may be (default: 10s)")
    stream.add_argument(
        "--idle-after", type=duration, metavar="T", help="an input silent for so long holds nothing up (default: 1m)"
    )
    stream.add_argument(
        "--shards", type=int, metavar="N", help="into how many parts the state is cut, for good (default: 16)"
    )
    stream.add_argument("--once", action="store_true", help="settle what is there, keep the place, and end")
    stream.add_argument("--for", dest="for_ms", type=duration_ms, metavar="T", help="end after this time")
    session.add_arguments(parser)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """What `settle` and `curve` share."""
    parser.add_argument("operations", metavar="OPERATIONS", help="a file, a directory, a URL or a table")
    parser.add_argument("events", metavar="EVENTS", help="likewise")
    group = parser.add_argument_group("inputs")
    group.add_argument("--format", metavar="F", help=f"{', '.join(FORMATS)}, or any format of Spark (default: by name)")
    group.add_argument(
        "--option",
        type=pair,
        action="append",
        default=[],
        metavar="K=V",
        help="an option of the reader; may be repeated",
    )
    group.add_argument(
        "--map",
        type=pair,
        action="append",
        default=[],
        metavar="OURS=YOURS",
        help="which column is which; may be repeated",
    )
    group.add_argument("--within", type=duration_ms, metavar="T", help="one delay for all, in place of delay_ms")
    group.add_argument("--operations-sql", metavar="SQL", help="make OPERATIONS from the table `input` with this query")
    group.add_argument("--events-sql", metavar="SQL", help="make EVENTS from the table `input` with this query")
    parser.add_argument(
        "--engine",
        choices=("spark", "memory"),
        default="spark",
        help="memory: in this process, for small inputs, no Java",
    )


def run(args: argparse.Namespace) -> int:
    inputs = Inputs.of(args)
    inputs.must_lie_outside(args.out)
    if args.stream:
        return _stream(args, inputs)
    for name in ("checkpoint", "lateness", "idle_after", "shards", "for_ms", "once"):
        if getattr(args, name):
            raise Problem(
                f"--{name.removesuffix('_ms').replace('_', '-')} is for streams: add --stream, or leave it out"
            )
    if args.engine == "memory":
        from dwell.cli.memory_job import settle_in_memory

        return settle_in_memory(args, inputs).tell()
    with session.session(args) as spark:
        from dwell.cli.table_job import settle_tables

        return settle_tables(spark, args, inputs).tell()


def _stream(args: argparse.Namespace, inputs: Inputs) -> int:
    if args.checkpoint is None:
        raise Problem("a stream needs --checkpoint DIR: there it keeps its place")
    if args.engine == "memory" or args.as_of is not None or args.curve:
        raise Problem("--stream goes with neither --engine memory nor --as-of nor --curve: leave them out")
    with session.session(args, stream=True) as spark:
        from dwell.cli.stream_job import settle_stream

        summary: Summary = settle_stream(spark, args, inputs)
        return summary.tell()
