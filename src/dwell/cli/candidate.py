"""Which timeouts to try when nobody says."""

from __future__ import annotations

# Delays people name, in each unit.
UNITS = (
    (1, (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700)),
    (1000, (1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 45)),
    (60_000, (1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 45)),
    (3_600_000, (1, 1.5, 2, 3, 4, 6, 8, 12, 18)),
    (86_400_000, (1, 1.5, 2, 3, 4, 5, 7, 10, 14, 21, 30, 45, 60, 90, 180, 365)),
)

# How far beyond the chosen delay to look, and how far below.
BEYOND, BELOW = 10, 10_000


def candidates(chosen_ms: int | None) -> list[int]:
    """Delays from well below the chosen one to well beyond it, itself among them."""
    middle = max(60_000 if chosen_ms is None else chosen_ms, 1)
    named = {int(unit * number) for unit, numbers in UNITS for number in numbers}
    return sorted({ms for ms in named if middle / BELOW <= ms <= middle * BEYOND} | {middle})
