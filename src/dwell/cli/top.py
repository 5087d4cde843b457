"""Watch the purgatories and ledgers of a running program from another terminal.

The program says `dwell.serve_statistics(purgatory)`; this command finds it on this machine, asks it once a second, and
changes nothing. Without a terminal, or with --once, it prints one picture and ends.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from dwell.cli.argument import duration_ms
from dwell.cli.problem import Problem
from dwell.cli.top_picture import picture

if TYPE_CHECKING:
    import argparse

NAME = "top"
HELP = "watch a running program"
EXAMPLE = "  dwell top\n  dwell top 41234 --every 500ms"

CLEAR_SCREEN = "\x1b[H\x1b[2J"
TIMEOUT_S = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "port", metavar="PORT", nargs="?", type=int, help="the program's port (default: the one that runs)"
    )
    parser.add_argument("--every", type=duration_ms, default=1000, metavar="T", help="how often to ask (default: 1s)")
    parser.add_argument("--once", action="store_true", help="print one picture and end")


def run(args: argparse.Namespace) -> int:
    url = f"http://127.0.0.1:{args.port}/" if args.port is not None else find()
    before = ask(url)
    if args.once or not sys.stdout.isatty():
        time.sleep(args.every / 1000)
        print(picture(before, ask(url)))
        return 0
    try:
        while True:
            time.sleep(args.every / 1000)
            now = ask(url)
            sys.stdout.write(CLEAR_SCREEN + picture(before, now) + "\n\nCtrl-C ends the watching, not the program.\n")
            sys.stdout.flush()
            before = now
    except KeyboardInterrupt:
        return 0


def find() -> str:
    """The address of the one program that serves; a Problem if there is none, or more than one."""
    from dwell.serve import notes

    found: dict[str, Any] = {}
    for note in sorted(notes().glob("*.json")):
        said = json.loads(note.read_text())
        try:
            ask(said["url"])
        except Problem:
            note.unlink(missing_ok=True)  # its program ended without saying goodbye
        else:
            found[said["url"]] = said
    if not found:
        raise Problem("no program serves statistics here: call dwell.serve_statistics(purgatory) in it")
    if len(found) > 1:
        listed = ", ".join(
            f"{url.rsplit(':', 1)[1].strip('/')} ({said['program']}, pid {said['pid']})" for url, said in found.items()
        )
        raise Problem(f"more than one program serves statistics, name a port: {listed}")
    return next(iter(found))


def ask(url: str) -> dict[str, Any]:
    try:
        # Without the proxies of the environment: this machine answers itself.
        with build_opener(ProxyHandler({})).open(url, timeout=TIMEOUT_S) as answer:
            said: dict[str, Any] = json.load(answer)
            return said
    except (URLError, OSError, ValueError) as error:
        raise Problem(f"nothing answers at {url}: has the program ended?") from error
