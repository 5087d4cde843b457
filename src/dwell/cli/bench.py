"""Not yet."""
import argparse
NAME = "bench"
HELP = "x"
EXAMPLE = "  x"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    return 0
