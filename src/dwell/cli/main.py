"""The entry point: finds the command, runs it, turns what goes wrong into one line and an exit code.

Exit codes: 0 done (and, where there is a ledger identity, it holds); 1 the identity does not hold; 2 it could not be
done, the last line says why and what to do; 130 interrupted.

argparse, not a library: the core has no run-time dependency, and six commands do not need one.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, NoReturn

from dwell.cli import bench, curve, report, sample, settle, top
from dwell.cli.problem import in_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

COMMANDS = (sample, settle, report, curve, top, bench)

DONE, BROKEN, FAILED, INTERRUPTED = 0, 1, 2, 130


class Parser(argparse.ArgumentParser):
    """One line for an error, in place of a usage text that hides it."""

    def error(self, message: str) -> NoReturn:
        self.exit(FAILED, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def parser() -> argparse.ArgumentParser:
    top_level = Parser(
        prog="dwell",
        description="Settle delayed operations: did the events an operation waits for come before its time ran out?",
        epilog="dwell COMMAND --help shows what a command takes, with an example.",
    )
    top_level.add_argument("--version", action="version", version=f"dwell {_version()}")
    commands = top_level.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in COMMANDS:
        command = commands.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.__doc__,
            epilog=f"example:\n{module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.add_argument("--debug", action="store_true", help="on an error show the traceback, and Spark's own log")
        command.set_defaults(run=module.run, command=module.NAME)
    return top_level


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _end)
    if not args.debug:
        # What the libraries below warn of and log: our own line will say it.
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
    try:
        code: int = args.run(args)
    except KeyboardInterrupt as end:
        print(f"dwell {args.command}: interrupted, {str(end) or 'nothing was left behind'}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone: it got what it wanted.
        sys.stderr.close()
        return DONE
    except Exception as error:
        if args.debug:
            traceback.print_exc()
        print(f"dwell {args.command}: {in_one_line(error)}", file=sys.stderr)
        return FAILED
    return code


def _end(signum: int, frame: FrameType | None) -> NoReturn:
    # So that `with` blocks remove what is half done, as they do on Ctrl-C.
    raise KeyboardInterrupt


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dwell")
    except PackageNotFoundError:
        return "(not installed)"
