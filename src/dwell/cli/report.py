"""Not yet."""
import argparse
NAME = "report"
HELP = "x"
EXAMPLE = "  x"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    return 0
