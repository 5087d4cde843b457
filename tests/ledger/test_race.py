"""Threads that really race. Every call gets its own millisecond, so the record of a run has one reading: replay's."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from dwell.ledger import Event, Ledger, LedgerStatistics, Need, Outcome, Ticket, Wait, replay


class TickingClock:
    """Each reading is one millisecond later than the one before."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def holds(counts: LedgerStatistics) -> bool:
    settled = counts.completed + counts.expired + counts.rejected + counts.cancelled
    return counts.opened == settled + counts.pending


@pytest.mark.parametrize("seed", range(40))
def test_racing_threads_lose_no_outcome_and_give_none_twice(seed: int) -> None:
    rng = random.Random(seed)
    keys = [f"k{n}" for n in range(rng.randint(1, 4))]
    ledger = Ledger(clock=TickingClock(), reaper=False, key_retention_ms=rng.choice((None, 50)), op_retention_ms=50)
    barrier = threading.Barrier(6)
    told: Counter[str | None] = Counter()
    told_lock = threading.Lock()
    tickets: list[Ticket] = []
    failures: list[BaseException] = []

    def tell(ticket: Ticket) -> None:
        with told_lock:
            told[ticket.op_id] += 1

    def opener(number: int) -> None:
        own = random.Random(f"{seed}-{number}")
        for turn in range(60):
            needs = [
                Need(key, own.choice((None, own.randint(1, 40)))) for key in own.sample(keys, own.randint(1, len(keys)))
            ]
            volume = own.randint(1, 30) if all(need.level for need in needs) and own.random() < 0.5 else None
            quorum = own.choice((None, 1)) if volume is None else None
            ticket = ledger.open(f"{number}-{turn}", needs, own.randint(0, 400), quorum=quorum, volume=volume)
            ticket.add_done_callback(tell)
            tickets.append(ticket)
            if own.random() < 0.2:
                ticket.cancel()

    def recorder(number: int) -> None:
        own = random.Random(f"{seed}-{number}")
        for _ in range(80):
            ledger.record(own.choice(keys), own.choice((None, own.randint(1, 50))))
            if own.random() < 0.3:
                own.choice(tickets or [ledger.open(f"r{number}-{own.random()}", [Need("x")], 1)]).cancel()

    def reaper(_number: int) -> None:
        for _ in range(150):
            ledger.advance()
            assert holds(ledger.statistics())

    def run(work: object, number: int) -> None:
        barrier.wait()
        try:
            work(number)  # type: ignore[operator]
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=run, args=(work, number))
        for number, work in enumerate([opener, opener, opener, recorder, recorder, reaper])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    ledger.close("expire")
    counts = ledger.statistics()
    assert holds(counts)
    assert counts.pending == 0
    assert all(ticket.outcome is not None for ticket in tickets)
    assert {told[ticket.op_id] for ticket in tickets} == {1}


class Recording:
    """A live ledger and the record of what was done to it, by the times the ledger gave."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = TickingClock()
        self.ledger = Ledger(clock=self.clock, reaper=False, key_retention_ms=None)
        self.waits: list[Wait] = []
        self.events: list[Event] = []
        self.outcomes: list[Outcome] = []
        self.barrier = threading.Barrier(4)
        # Around a call and its note; without it another thread's call could take the time in between.
        self.note = threading.Lock()

    def open_some(self, number: int) -> None:
        rng = random.Random(f"{self.seed}-{number}")
        self.barrier.wait()
        for turn in range(50):
            keys = rng.sample("abc", rng.randint(1, 3))
            needs = tuple(Need(key, rng.choice((None, rng.randint(1, 40)))) for key in keys)
            op_id, delay_ms, quorum = f"{number}-{turn}", rng.randint(5, 105), rng.choice((None, 1))
            with self.note:
                wait = Wait(op_id, needs, delay_ms, self.clock.now + 1, quorum)
                ticket = self.ledger.open(op_id, needs, delay_ms, quorum=quorum)
                self.waits.append(wait)
            ticket.add_done_callback(lambda ticket: self.outcomes.append(ticket.result(0)))

    def record_some(self, number: int) -> None:
        rng = random.Random(f"{self.seed}-{number}")
        self.barrier.wait()
        for _ in range(100):
            key, level = rng.choice("abc"), rng.choice((None, rng.randint(1, 50)))
            with self.note:
                self.events.append(Event(key, self.clock.now + 1, level))
                self.ledger.record(key, level)

    def run(self) -> None:
        work = [self.open_some, self.open_some, self.record_some, self.record_some]
        threads = [threading.Thread(target=each, args=(number,)) for number, each in enumerate(work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.ledger.close("expire")


@pytest.mark.parametrize("seed", range(20))
def test_what_racing_threads_got_is_what_replay_says_of_the_record(seed: int) -> None:
    recording = Recording(seed)
    recording.run()
    assert len(recording.outcomes) == 100
    assert sorted(recording.outcomes) == sorted(replay(recording.waits, recording.events))
