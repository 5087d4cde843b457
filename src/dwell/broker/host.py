"""The core of a cluster, without sockets and without threads: bytes in, bytes out, time as an argument.

    host = Host(Options(brokers=3), clock=ManualClock())
    connection = host.connect(broker=0)
    answers = host.receive(connection, request_bytes)       # whole or cut anywhere
    host.advance(30_000)                                    # what runs out of time is answered
    connection.take()

`cluster.py` puts an event loop and listeners around it; tests and fuzzers drive it as it is. Everything happens in one
thread, the caller's, so there are no locks. A handler changes the state it is about and puts what follows from it on
the agenda.
"""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from dwell.aio import LoopTimer
from dwell.broker.agenda import Agenda
from dwell.broker.broker import Broker
from dwell.broker.config import FOREVER_MS, Config, TopicConfig
from dwell.broker.controller.controller import Controller
from dwell.broker.controller.image import BrokerImage, PartitionImage, Record, TopicImage
from dwell.broker.delayed.request import DelayedRequest
from dwell.broker.memory import Memory
from dwell.broker.option import Options
from dwell.broker.request import Request
from dwell.broker.server.connection import Connection, MemoryTransport
from dwell.broker.waiting import Waiting
from dwell.clock import Clock, ManualClock, SystemClock
from dwell.errors import ErrorHandler, InvalidArgument, log_error
from dwell.purgatory import Purgatory
from dwell.timer import InlineExecutor, SystemTimer, TimerTask

if TYPE_CHECKING:
    from dwell.broker.replica.partition import Partition

# Requests remembered for `cluster.requests()`.
RING = 10_000
# How often conditions from outside let the rest of the agenda go first: a busy agenda is never empty.
SETTLING_TRIES = 16


class Host:
    """Brokers, controller, agenda and clocks of one cluster."""

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        on_error: ErrorHandler = log_error,
    ) -> None:
        self.options = options
        self.clock = SystemClock() if clock is None else clock
        self.now_ms = self.clock.now_ms
        self._loop = loop
        self.on_error = on_error
        self.config = Config(options.configs)
        self.random = Random(options.seed)
        self.cluster_id = base64.urlsafe_b64encode(self.random.randbytes(16)).decode().rstrip("=")
        self._start_ms = self.now_ms()
        self._epoch_ms = options.epoch_ms
        self.is_manual = isinstance(self.clock, ManualClock) or loop is None
        wake = None if loop is None else lambda: loop.call_soon(self._drain)
        self.agenda = Agenda(wake, on_error)
        # For pauses, delays and limits; purgatories have timers of their own.
        self._timers: list[SystemTimer | LoopTimer] = []
        self._timer = self._make_timer("host")
        self._real_timer: SystemTimer | LoopTimer | None = None
        self._purgatories: list[Purgatory] = []
        self.follower_wait_ms: int = (
            FOREVER_MS
            if self.is_manual and "replica.fetch.wait.max.ms" not in self.config
            else self.config["replica.fetch.wait.max.ms"]
        )
        default = self.config["default.replication.factor"]
        self.default_replication: int = min(3, options.brokers) if default == -1 else default
        self.memory = Memory(options.memory_bytes, self.measure)
        self.controller = Controller(self)
        self._topic_configs: dict[bytes, TopicConfig] = {}
        # Operations that hold a client's request, in the order they were parked.
        self.parked: dict[DelayedRequest, None] = {}
        # The key whose change is being looked at.
        self.checking: str | None = None
        self.requests: deque[Request] = deque(maxlen=RING)
        self.num_requests = 0
        self._next_producer_id = 0
        # Where `advance` collects what expired.
        self._expired: list[Waiting] | None = None
        # Somebody outside waits for one of these to become true.
        self._conditions: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self._poked = False
        self.brokers: list[Broker] = []
        for broker_id in range(options.brokers):
            self._add_broker(broker_id)
        self.agenda.drain()

    def _add_broker(self, broker_id: int) -> None:
        options = self.options
        registration = BrokerImage(
            id=broker_id,
            host=options.advertised_host or options.host,
            port=options.ports[broker_id] if options.ports else 9092 + broker_id,
            rack=options.racks[broker_id] if options.racks else None,
        )
        broker = Broker(self, registration)
        broker.image = self.controller.image.copy()
        self.brokers.append(broker)
        self.controller.broker_up(registration)

    # Time

    def wall_ms(self) -> int:
        """The time that records and answers carry: `epoch_ms` at the start, then as the cluster's clock runs."""
        return self._epoch_ms + self.now_ms() - self._start_ms

    def schedule(self, delay_ms: int, callback: Callable[[], object]) -> TimerTask:
        """Call back after `delay_ms`, at least one: never inside this call."""
        return self._timer.schedule(max(1, delay_ms), callback)

    def schedule_real(self, delay_ms: int, callback: Callable[[], object]) -> TimerTask:
        """Like `schedule`, but in the machine's time if there is an event loop: for what a client's network does."""
        if self._real_timer is None:
            self._real_timer = self._timer if self._loop is None else self._make_timer("real")
        return self._real_timer.schedule(max(1, delay_ms), callback)

    def _make_timer(self, kind: str) -> SystemTimer | LoopTimer:
        timer: SystemTimer | LoopTimer
        if self._loop is not None and (not self.is_manual or kind in (*self.options.real, "real")):
            timer = LoopTimer(loop=self._loop, on_error=self.on_error)
        else:
            timer = SystemTimer(kind, clock=self.clock, executor=InlineExecutor(), on_error=self.on_error)
        self._timers.append(timer)
        return timer

    def make_purgatory(self, name: str, kind: str) -> Purgatory:
        purgatory = Purgatory(name, timer=self._make_timer(kind), reaper=False, on_error=self.on_error)
        self._purgatories.append(purgatory)
        return purgatory

    @property
    def purgatories(self) -> list[Purgatory]:
        return list(self._purgatories)

    def advance(self, ms: int) -> list[Waiting]:
        """Move a manual clock by `ms`, from deadline to deadline; returns the clients' requests that expired.

        At one moment everything that can happen happens before anything expires: a follower whose pause ends at the
        deadline of a produce completes it.
        """
        clock = self.clock
        if not isinstance(clock, ManualClock):
            raise InvalidArgument("advance() needs a cluster with clock=ManualClock()")
        if ms < 0:
            raise InvalidArgument(f"ms must not be negative, not {ms}")
        self._expired = []
        try:
            self.agenda.drain()
            end_ms = clock.now_ms() + ms
            while (next_ms := self._next_ms()) is not None and next_ms <= end_ms:
                clock.advance(max(0, next_ms - clock.now_ms()))
                self._work_off()
            clock.advance(end_ms - clock.now_ms())
            self._work_off()
            return self._expired
        finally:
            self._expired = None

    def _work_off(self) -> None:
        """Do what is due at this moment: first pauses and delays and all that follows, then expirations."""
        while self._timer.advance_clock(0):
            self.agenda.drain()
        self.agenda.drain()
        for timer in list(self._timers):
            if timer is not self._timer and isinstance(timer, SystemTimer):
                timer.advance_clock(0)
        self.agenda.drain()

    def _next_ms(self) -> int | None:
        times = [timer.next_expiration_ms for timer in self._timers if isinstance(timer, SystemTimer)]
        return min((ms for ms in times if ms is not None), default=None)

    def expired(self, operation: DelayedRequest) -> None:
        if self._expired is not None:
            self._expired.append(Waiting.of(operation))

    @property
    def is_waited_for(self) -> bool:
        """Whether anybody waits for anything: a client in a purgatory, or a condition from outside."""
        return bool(self.parked or self._conditions)

    # The agenda

    def _drain(self) -> None:
        self.agenda.drain_slice()

    def poke(self) -> None:
        """Something changed that somebody outside may wait for."""
        if self._conditions and not self._poked:
            self._poked = True
            self.agenda.put(self._look)

    def when(self, condition: Callable[[], Any], tell: Callable[[Any], None]) -> Callable[[], None]:
        """Call `tell` with what `condition` returns, once that is true; returns a call that gives up."""
        entry = (condition, tell)
        self._conditions.append(entry)
        self.poke()

        def forget() -> None:
            if entry in self._conditions:
                self._conditions.remove(entry)

        return forget

    def _look(self, tries: int = SETTLING_TRIES) -> None:
        # Last of all: who waits outside shall see the state that this moment ends with.
        if tries and len(self.agenda):
            self.agenda.put(partial(self._look, tries - 1))
            return
        self._poked = False
        for entry in list(self._conditions):
            found = entry[0]()
            if found:
                self._conditions.remove(entry)
                entry[1](found)

    # Bytes

    def connect(self, broker: int = 0) -> Connection:
        """A connection without a socket; its answers are collected by `receive`."""
        return Connection(self.brokers[broker], MemoryTransport(), "memory")

    def receive(self, connection: Connection, data: bytes) -> list[bytes]:
        """Give `data` to a connection of `connect`, do all that follows, return what is to be sent."""
        connection.feed(data)
        self.agenda.drain()
        return connection.take()

    def next_request_number(self) -> int:
        self.num_requests += 1
        return self.num_requests

    # What the controller needs to know and to tell

    def publish(self, records: list[Record]) -> None:
        """A change of the controller's image, for every broker that is up."""
        for broker in self.brokers:
            if broker.is_alive:
                broker.deliver(records)
        self.poke()

    def is_in_session(self, broker_id: int) -> bool:
        """Whether the controller hears from a broker."""
        return self.brokers[broker_id].is_reachable

    def isr_refused(self, leader: int, seen: PartitionImage) -> None:
        partition = self.brokers[leader].partitions.get((seen.topic, seen.index))
        if partition is not None:
            partition.isr_refused()

    def topic_config(self, topic: TopicImage) -> TopicConfig:
        """The settings of a topic, parsed once."""
        found = self._topic_configs.get(topic.id)
        if found is None:
            found = self._topic_configs[topic.id] = TopicConfig(topic.configs, self.config)
        return found

    def new_id(self) -> bytes:
        return self.random.randbytes(16)

    def new_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # Replicas

    def leader_of(self, partition: Partition) -> Partition | None:
        """The leader that a follower can fetch from now: it is up, reachable, and both know of the same epoch."""
        leader_id = partition.image.leader
        if leader_id < 0 or leader_id == partition.broker.id:
            return None
        broker = self.brokers[leader_id]
        if not broker.is_reachable:
            return None
        leader = broker.partitions.get((partition.topic, partition.index))
        if leader is None or not leader.is_leader or leader.image.leader_epoch != partition.image.leader_epoch:
            return None
        if leader.topic_id != partition.topic_id:
            # A topic was created again under its old name, and one of the two brokers has not heard.
            return None
        return leader if partition.broker.id in leader.followers else None

    def leader_ready(self, leader: Partition) -> None:
        """A broker has begun to lead: those who follow may have waited for it."""
        for replica in leader.image.replicas:
            if replica != leader.broker.id:
                follower = self.brokers[replica].partitions.get((leader.topic, leader.index))
                if follower is not None:
                    follower.fetcher.step()

    def state_of(self, broker_id: int) -> str:
        """What is wrong with a broker, as the end of a sentence."""
        broker = self.brokers[broker_id]
        if not broker.is_alive:
            return ", down"
        if broker.is_isolated:
            return ", isolated"
        if broker.is_frozen:
            return ", frozen"
        return f", lags by {broker.lag_ms:,} ms" if broker.lag_ms else ""

    def measure(self) -> int:
        """Bytes in memory: replicas share their batches, so of each partition the largest log counts."""
        sizes: dict[Hashable, int] = {}
        for broker in self.brokers:
            for key, partition in broker.partitions.items():
                sizes[key] = max(sizes.get(key, 0), partition.log.size)
        return sum(sizes.values())

    # Breaking things

    def kill(self, broker_id: int) -> None:
        """A broker dies: connections are reset, what waits is cancelled, others lead after `session_ms`."""
        broker = self.brokers[broker_id]
        if broker.is_alive:
            broker.go_down("the broker was killed")
            self._lose_session(broker_id)

    def stop(self, broker_id: int) -> None:
        """A broker leaves in order: first others take over, then it goes."""
        broker = self.brokers[broker_id]
        if broker.is_alive:
            self.controller.leave(broker_id)
            self.agenda.drain()
            broker.go_down("the broker was stopped")
            self.controller.broker_down(broker_id)

    def restart(self, broker_id: int, *, wipe: bool = False) -> None:
        """A broker comes back with its logs, or empty; as a follower, until it is elected again."""
        broker = self.brokers[broker_id]
        if broker.is_alive:
            self.kill(broker_id)
        if wipe:
            # Without its data it is not in sync: the controller takes it out first.
            broker.has_lost_data = True
            self.controller.broker_down(broker_id, lost_data=True)
        broker.come_up(self.controller.image, wipe=wipe)
        if broker.is_reachable:
            self.controller.broker_up(broker.registration)
        broker.fetch_again()

    def isolate(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        if not broker.is_isolated:
            broker.is_isolated = True
            broker.interrupt_fetching()
            broker.interrupt_followers()
            self._lose_session(broker_id)

    def heal(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        if broker.is_isolated:
            broker.is_isolated = False
            if broker.is_alive:
                broker.apply_due()
                self.controller.broker_up(broker.registration)
                broker.fetch_again()
                for partition in list(broker.partitions.values()):
                    if partition.is_leader:
                        partition.watch_lag()
                        self.leader_ready(partition)
            for connection in list(broker.connections):
                connection.pump()

    def freeze(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        broker.is_frozen = True
        broker.interrupt_fetching()

    def thaw(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        broker.is_frozen = False
        broker.fetch_again()

    def lag(self, broker_id: int, ms: int) -> None:
        """Its followers pause for `ms` before each fetch; a longer pause that is going on is cut short."""
        broker = self.brokers[broker_id]
        is_shorter = ms < broker.lag_ms
        broker.lag_ms = ms
        if is_shorter:
            for partition in list(broker.partitions.values()):
                partition.fetcher.pause_again()

    def _lose_session(self, broker_id: int) -> None:
        if self.options.session_ms:
            self.schedule(self.options.session_ms, lambda: self.controller.broker_down(broker_id))
        else:
            self.controller.broker_down(broker_id)

    def close(self) -> None:
        """Let go of everything that waits or is still to do, without answers."""
        self.agenda.close()
        for broker in self.brokers:
            for connection in list(broker.connections):
                connection.close("the cluster is closed")
        for purgatory in self._purgatories:
            purgatory.close("cancel")
        for timer in self._timers:
            timer.close()
        self.parked.clear()
