"""Figures in columns."""

from __future__ import annotations

from collections.abc import Sequence

Cell = str | float | None


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], digits: int = 0) -> None:
    """A Markdown table, so that it can go into the documents as it is. None is a dash."""

    def text(cell: Cell) -> str:
        if cell is None:
            return "-"
        if isinstance(cell, str):
            return cell
        return f"{cell:,.{max(digits, 1) if abs(cell) < 10 else digits}f}"

    cells = [list(head), *([text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print(f"\n{title}\n")
    for number, row in enumerate(cells):
        padded = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        print("| " + " | ".join(padded) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 1) + (":" if i else "-") for i, width in enumerate(widths)) + "|")
    print(flush=True)
