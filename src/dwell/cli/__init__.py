"""The command line `dwell`: arguments in, library calls, words and pictures out. One file a command."""

from dwell.cli.main import main

__all__ = ["main"]
