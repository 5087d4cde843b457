"""A timer that a test moves by hand, with one call."""

from __future__ import annotations

from typing import SupportsIndex

from dwell.clock import ManualClock
from dwell.number import at_least, later
from dwell.timer import InlineExecutor, SystemTimer


class ManualTimer(SystemTimer):
    """A timer at 0 ms that stands still until `advance(ms)`. What comes due meanwhile runs inside that call.

    The clock goes from one expiration to the next, so a task finds the clock at its own deadline, and what it adds runs
    in its turn. `advance` raises what tasks raised: the exception, or a group if there are several. Give `clock` to
    share it with other things under test.
    """

    def __init__(
        self,
        name: str = "manual",
        *,
        tick_ms: SupportsIndex = 1,
        wheel_size: SupportsIndex = 20,
        clock: ManualClock | None = None,
    ) -> None:
        self._errors: list[BaseException] = []
        self._manual_clock = ManualClock() if clock is None else clock
        super().__init__(
            name,
            tick_ms=tick_ms,
            wheel_size=wheel_size,
            clock=self._manual_clock,
            executor=InlineExecutor(),
            on_error=lambda error, _task: self._errors.append(error),
        )

    @property
    def clock(self) -> ManualClock:
        """The clock that deadlines are counted on."""
        return self._manual_clock

    def advance(self, ms: SupportsIndex) -> None:
        """Move the clock forward by `ms` and run all that comes due on the way, each at its time."""
        end_ms = later(self.clock.now_ms(), at_least("ms", ms, 0))
        while (first_ms := self.next_expiration_ms) is not None and first_ms <= end_ms:
            self.clock.advance(max(0, first_ms - self.clock.now_ms()))
            self.advance_clock(0)
        # A task may have moved the clock itself.
        self.clock.advance(max(0, end_ms - self.clock.now_ms()))
        self.advance_clock(0)
        self.raise_errors()

    def raise_errors(self) -> None:
        """Raise what tasks raised and nobody has seen yet."""
        errors, self._errors = self._errors, []
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise BaseExceptionGroup(f"{len(errors)} tasks of {self.name!r} raised", errors)
