"""The hierarchical timing wheel: add and cancel in O(1), however many tasks wait and however far away they are due.

**One wheel.** Time is cut into ticks. A wheel of `wheel_size` buckets covers `interval = tick * wheel_size`; the
bucket of a task is `(expiration // tick) % wheel_size`. As the clock moves on, buckets left behind are used again for
the ticks that have just come into reach, so a bucket never mixes two rounds. With tick 1, size 3, and the clock at 0:

    bucket     0      1      2
    holds    [0,0]  [1,1]  [2,2]

At time 1 the first bucket has been left behind and stands for the tick that came into reach:

    bucket     0      1      2
    holds    [3,3]  [1,1]  [2,2]

**Many wheels.** A task beyond the interval goes to an overflow wheel whose tick is the interval of the wheel below,
with the same number of buckets. Each level reaches `wheel_size` times further than the one below it, so a few levels
reach as far as 64-bit time goes; a level is built the first time a task needs it. Tick 1, size 3, clock at 0:

    level 1, tick 1    [0,0]   [1,1]   [2,2]
    level 2, tick 3    [0,2]   [3,5]   [6,8]
    level 3, tick 9    [0,8]   [9,17]  [18,26]

A task due at 7 is out of reach of level 1 and lies in [6,8] of level 2. A task due at 23 lies in [18,26] of level 3.

**Cascade.** A bucket expires at the *start* of its range. The task due at 7 is therefore taken out at 6, and added
again: now 7 is less than one interval (3) away, and it lands in a bucket of level 1 that holds 7 alone. With the
clock at 6:

    level 1, tick 1    [6,6]   [7,7]   [8,8]
    level 2, tick 3    [9,11]  [12,14] [6,8]
    level 3, tick 9    [0,8]   [9,17]  [18,26]

The task due at 23 comes down at 18, from [18,26] to [21,23] of level 2, then at 21 to [23,23] of level 1, and runs at
23. A task moves down once per level at most: O(levels), and most tasks are cancelled long before.

**The delay queue.** Nobody turns the wheel tick by tick: each bucket that holds tasks is put into a queue ordered by
expiration (buckets, not tasks: there are at most `wheel_size` per level), and the clock jumps from one expiration
to the next. An empty hour costs nothing. The clock of the wheel moves only when a bucket expires, so after an idle
hour a task due in 5 ms may land in a far bucket that has already expired: the next advance takes it out and cascades
it down, on time.

**Never early.** The timer rounds a deadline up to a whole tick before it comes here, so a bucket of level 1 holds one
expiration only and the tasks in it are due when it expires, not up to a tick before. At most one tick late, then, if
advanced on time.
"""

from __future__ import annotations

from typing import final

from dwell.timer.bucket import TimerTaskEntry, TimerTaskList
from dwell.timer.delay_queue import DelayQueue

# Buckets per level. More would cost memory for nothing: with 20 per level, 15 levels reach 64 bits.
LARGEST_WHEEL = 2**20


@final
class TimingWheel:
    """One level of the hierarchy, and through `overflow_wheel` all the levels above it.

    Arithmetic only: it knows no clock and no thread, and is driven with integers. In a timer the caller holds its lock.
    """

    __slots__ = (
        "buckets",
        "current_ms",
        "interval_ms",
        "overflow_wheel",
        "queue",
        "tick_ms",
        "wheel_size",
    )

    def __init__(self, tick_ms: int, wheel_size: int, start_ms: int, queue: DelayQueue) -> None:
        self.tick_ms = tick_ms
        self.wheel_size = wheel_size
        self.interval_ms = tick_ms * wheel_size
        self.current_ms = start_ms - start_ms % tick_ms
        self.queue = queue
        self.buckets = [TimerTaskList() for _ in range(wheel_size)]
        self.overflow_wheel: TimingWheel | None = None

    def add(self, entry: TimerTaskEntry) -> bool:
        """Put the entry into its bucket, O(levels). False if it is due: then the caller runs it."""
        expiration_ms = entry.expiration_ms
        if expiration_ms < self.current_ms + self.tick_ms:
            return False
        if expiration_ms >= self.current_ms + self.interval_ms:
            return self._overflow().add(entry)
        virtual_id = expiration_ms // self.tick_ms
        bucket = self.buckets[virtual_id % self.wheel_size]
        bucket.add(entry)
        if bucket.set_expiration(virtual_id * self.tick_ms):
            self.queue.put(bucket)
        return True

    def advance_clock(self, time_ms: int) -> None:
        """Move this level and those above to `time_ms`, the expiration of a bucket; never back."""
        if time_ms >= self.current_ms + self.tick_ms:
            self.current_ms = time_ms - time_ms % self.tick_ms
            if self.overflow_wheel is not None:
                self.overflow_wheel.advance_clock(self.current_ms)

    def _overflow(self) -> TimingWheel:
        if self.overflow_wheel is None:
            self.overflow_wheel = TimingWheel(self.interval_ms, self.wheel_size, self.current_ms, self.queue)
        return self.overflow_wheel
