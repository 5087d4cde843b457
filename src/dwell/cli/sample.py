"""Make a realistic workload to try dwell on: OUT/operations and OUT/events as Parquet.

The same kind, size and seed give the same rows on every machine.

  orders     an order is paid within 30 minutes or cancelled          one signal
  produce    acks=all over partitions, some with a lagging replica    all levels
  fetch      at least 64 KiB over some partitions, or 500 ms          volume
  sessions   the next heartbeat of a member within 10 s               one signal
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dwell.cli import session
from dwell.cli.argument import new_place, size
from dwell.cli.ending import work_ends_with_the_block
from dwell.cli.output import files_for, must_be_free, whole_or_nothing
from dwell.cli.problem import Problem
from dwell.cli.progress import progress

if TYPE_CHECKING:
    import argparse

NAME = "sample"
HELP = "make a workload to try dwell on"
EXAMPLE = "  dwell sample orders out/orders --rows 200k --seed 7"

KINDS = ("orders", "produce", "fetch", "sessions")
MOST_ROWS = 100_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help=" · ".join(KINDS))
    parser.add_argument("out", metavar="OUT", type=new_place, help="the directory to make")
    parser.add_argument("--rows", type=size, default=10_000, help="operations, up to 100M (default: 10k)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other rows (default: %(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    session.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if not 1 <= args.rows <= MOST_ROWS:
        raise Problem(f"--rows must be between 1 and {MOST_ROWS:,}, it is {args.rows:,}")
    with session.session(args) as spark:
        from dwell.cli.workload import workload

        files = files_for(args.out, spark)
        must_be_free(files, args.out, args.overwrite)
        made = workload(spark, args.kind, args.rows, args.seed)
        whole = whole_or_nothing(files, args.out, overwrite=args.overwrite)
        with whole as partial, work_ends_with_the_block(spark):
            with progress(spark, f"{args.rows:,} {args.kind}"):
                made.operations.write.parquet(f"{partial}/operations")
            with progress(spark, "their events"):
                made.events.write.parquet(f"{partial}/events")
            files.write_text(f"{partial}/sample.json", json.dumps(made.about, indent=2) + "\n")
    print(f"{args.out}/operations\n{args.out}/events")
    return 0
