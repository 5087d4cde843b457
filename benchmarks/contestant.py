"""Who takes part in the timer benchmark: each wraps one system in the same five calls.

A contestant is made for the delays it will get, so that preparing its arguments (seconds instead of milliseconds,
say) is not part of what is measured. Loops are written out in each, as a user would write them, so that no wrapper
call counts.
"""

from __future__ import annotations

import asyncio
import heapq
import sched
from array import array
from itertools import count
from typing import Any, ClassVar

from dwell.testing import InlineExecutor, ManualClock
from dwell.timer import SystemTimer, TimerTask

# The last delay: after this much virtual time everything has expired.
HORIZON_MS = 60_000


def nothing() -> None:
    """What every timer does when it fires."""


class Contestant:
    name: str
    # How many timers it is asked for at the most, and how many operations of a kind are timed at the most.
    most_pending = 5_000_000
    most_timed = 5_000_000
    expires = True
    # What its process needs in its environment.
    environment: ClassVar[dict[str, str]] = {}

    def __init__(self, delays_ms: list[int]) -> None:
        self.delays_ms = delays_ms
        self.held: Any = []
        # Expiry moves the clock by this much a step: 1 ms, or as far as it takes for a step to find 16 timers or so.
        self.step_ms = max(1, 16 * HORIZON_MS // max(1, len(delays_ms)))

    def add_all(self) -> None:
        raise NotImplementedError

    def cancel_all(self, order: list[int]) -> None:
        raise NotImplementedError

    def pairs(self, order: list[int]) -> None:
        """For each of `order`: cancel that one, start another in its place."""
        raise NotImplementedError

    def expire_all(self) -> None:
        raise NotImplementedError

    def forget(self) -> None:
        """Drop the caller's own references, as most callers do not keep what they will not cancel."""
        self.held = []

    def object_bytes(self) -> int:
        """The size of the caller's own object a timer, if it holds one."""
        return 0


class DwellScheduled(Contestant):
    """`schedule(delay, callback)`, the counterpart of `call_later`: makes the task and adds it."""

    name = "dwell"

    def __init__(self, delays_ms: list[int]) -> None:
        super().__init__(delays_ms)
        self.clock = ManualClock()
        self.timer = SystemTimer(clock=self.clock, executor=InlineExecutor())

    def add_all(self) -> None:
        schedule, keep = self.timer.schedule, self.held.append
        for delay_ms in self.delays_ms:
            keep(schedule(delay_ms, nothing))

    def cancel_all(self, order: list[int]) -> None:
        held = self.held
        for i in order:
            held[i].cancel()

    def pairs(self, order: list[int]) -> None:
        schedule, held = self.timer.schedule, self.held
        for i, delay_ms in zip(order, self.delays_ms, strict=False):
            held[i].cancel()
            held[i] = schedule(delay_ms, nothing)

    def expire_all(self) -> None:
        clock, timer, step_ms = self.clock, self.timer, self.step_ms
        for _ in range(0, HORIZON_MS + 1, step_ms):
            clock.advance(step_ms)
            timer.advance_clock(0)
        assert timer.size == 0

    def object_bytes(self) -> int:
        # The collector's header of 16 bytes comes before the object and is not in its basic size.
        return int(TimerTask.__basicsize__) + 16


class DwellAdded(DwellScheduled):
    """`add(task)` of tasks the caller made before: what the timer itself costs."""

    name = "dwell, add only"

    def __init__(self, delays_ms: list[int]) -> None:
        super().__init__(delays_ms)
        self.held = [TimerTask(delay_ms, nothing) for delay_ms in delays_ms]
        self.spare = [TimerTask(delay_ms, nothing) for delay_ms in delays_ms]

    def add_all(self) -> None:
        add = self.timer.add
        for task in self.held:
            add(task)

    def pairs(self, order: list[int]) -> None:
        add, held = self.timer.add, self.held
        for i, task in zip(order, self.spare, strict=False):
            held[i].cancel()
            add(task)
            held[i] = task


class DwellReadable(DwellScheduled):
    name = "dwell, readable build"
    environment: ClassVar = {"DWELL_REFERENCE": "1"}
    most_pending = 1_000_000


class DwellBulk(DwellScheduled):
    """Handles in int64 buffers: one call for all, pairs in batches of 1,000."""

    name = "dwell bulk"
    batch = 1000

    def __init__(self, delays_ms: list[int]) -> None:
        super().__init__(delays_ms)
        self.delays = array("q", delays_ms)
        self.order = array("q")

    def add_all(self) -> None:
        self.held = self.timer.add_many(self.delays)

    def prepare(self, order: list[int]) -> None:
        """The handles in random order, which the caller of a bulk call has at hand."""
        self.order = array("q", [self.held[i] for i in order])

    def cancel_all(self, order: list[int]) -> None:
        self.timer.cancel_many(self.order)

    def pairs(self, order: list[int]) -> None:
        delays, shuffled = memoryview(self.delays), memoryview(self.order)
        for start in range(0, len(order), self.batch):
            self.timer.cancel_many(shuffled[start : start + self.batch])
            self.timer.add_many(delays[start : start + self.batch])

    def expire_all(self) -> None:
        clock, timer, step_ms, total = self.clock, self.timer, self.step_ms, 0
        for _ in range(0, HORIZON_MS + 1, step_ms):
            clock.advance(step_ms)
            total += len(timer.advance_many(0))
        assert timer.size == 0

    def object_bytes(self) -> int:
        return 8  # its place in the caller's buffer of handles


class Heapq(Contestant):
    """A heap of [deadline, number, callback]; cancelling empties the entry, which stays until its time."""

    name = "heapq, lazy deletion"

    def __init__(self, delays_ms: list[int]) -> None:
        super().__init__(delays_ms)
        self.heap: list[list[Any]] = []
        self.number = count()

    def add_all(self) -> None:
        heap, push, number, keep = self.heap, heapq.heappush, self.number, self.held.append
        for delay_ms in self.delays_ms:
            entry = [delay_ms, next(number), nothing]
            push(heap, entry)
            keep(entry)

    def cancel_all(self, order: list[int]) -> None:
        held = self.held
        for i in order:
            held[i][2] = None

    def pairs(self, order: list[int]) -> None:
        heap, push, number, held = self.heap, heapq.heappush, self.number, self.held
        for i, delay_ms in zip(order, self.delays_ms, strict=False):
            held[i][2] = None
            held[i] = entry = [delay_ms, next(number), nothing]
            push(heap, entry)

    def expire_all(self) -> None:
        heap, pop = self.heap, heapq.heappop
        for now_ms in range(0, HORIZON_MS + self.step_ms, self.step_ms):
            while heap and heap[0][0] <= now_ms:
                callback = pop(heap)[2]
                if callback is not None:
                    callback()
        assert not heap


class Asyncio(Contestant):
    """`loop.call_later` and `TimerHandle.cancel`, on a loop whose time is a number."""

    name = "asyncio"

    def __init__(self, delays_ms: list[int]) -> None:
        super().__init__(delays_ms)
        self.delays = [delay_ms / 1000 for delay_ms in delays_ms]
        self.loop = self.make_loop()

    def make_loop(self) -> Any:
        class VirtualLoop(asyncio.SelectorEventLoop):
            now = 0.0

            def time(self) -> float:
                return self.now

        return VirtualLoop()

    def add_all(self) -> None:
        call_later, keep = self.loop.call_later, self.held.append
        for delay in self.delays:
            keep(call_later(delay, nothing))

    def cancel_all(self, order: list[int]) -> None:
        held = self.held
        for i in order:
            held[i].cancel()

    def pairs(self, order: list[int]) -> None:
        call_later, held = self.loop.call_later, self.held
        for i, delay in zip(order, self.delays, strict=False):
            held[i].cancel()
            held[i] = call_later(delay, nothing)

    def expire_all(self) -> None:
        # One turn for all of them, which spares the loop 60,000 turns.
        self.loop.now = HORIZON_MS / 1000 + 1
        self.loop._run_once()
        assert not self.loop._scheduled


class Uvloop(Asyncio):
    """Has no virtual time: it waits for real, so its delays for `expire` are squeezed into two seconds."""

    name = "uvloop"

    def make_loop(self) -> Any:
        import uvloop

        self.delays = [delay / 30 for delay in self.delays]
        return uvloop.new_event_loop()

    def expire_all(self) -> None:
        async def until_done() -> None:
            await asyncio.sleep(2.1)

        self.loop.run_until_complete(until_done())


class Sched(Contestant):
    """`sched.scheduler`; its cancel searches the whole queue, so few are timed."""

    name = "sched"
    most_timed = 10

    def __init__(self, delays_ms: list[int]) -> None:
        super().__init__(delays_ms)
        self.now_ms = 0
        self.scheduler = sched.scheduler(lambda: self.now_ms, lambda _: None)

    def add_all(self) -> None:
        enter, keep = self.scheduler.enter, self.held.append
        for delay_ms in self.delays_ms:
            keep(enter(delay_ms, 1, nothing))

    def cancel_all(self, order: list[int]) -> None:
        for i in order:
            self.scheduler.cancel(self.held[i])

    def pairs(self, order: list[int]) -> None:
        for i, delay_ms in zip(order, self.delays_ms, strict=False):
            self.scheduler.cancel(self.held[i])
            self.held[i] = self.scheduler.enter(delay_ms, 1, nothing)

    def expire_all(self) -> None:
        self.now_ms = HORIZON_MS + 1
        self.scheduler.run(blocking=False)
        assert self.scheduler.empty()


class ApScheduler(Contestant):
    """Made for calendar jobs, not for timeouts; here because people use it for them."""

    name = "APScheduler"
    most_pending = 2_000
    most_timed = 200
    expires = False

    def __init__(self, delays_ms: list[int]) -> None:
        from datetime import datetime, timedelta

        from apscheduler.schedulers.background import BackgroundScheduler

        super().__init__(delays_ms)
        start = datetime.now() + timedelta(hours=1)
        self.dates = [start + timedelta(milliseconds=delay_ms) for delay_ms in delays_ms]
        self.scheduler = BackgroundScheduler()
        self.scheduler.start()

    def add_all(self) -> None:
        for date in self.dates:
            self.held.append(self.scheduler.add_job(nothing, "date", run_date=date))

    def cancel_all(self, order: list[int]) -> None:
        for i in order:
            self.held[i].remove()

    def pairs(self, order: list[int]) -> None:
        for i, date in zip(order, self.dates, strict=False):
            self.held[i].remove()
            self.held[i] = self.scheduler.add_job(nothing, "date", run_date=date)


CONTESTANTS: list[type[Contestant]] = [
    DwellScheduled,
    DwellAdded,
    DwellBulk,
    DwellReadable,
    Heapq,
    Asyncio,
    Uvloop,
    Sched,
    ApScheduler,
]
