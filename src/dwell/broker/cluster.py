"""`Cluster`: brokers on loopback in a thread of their own, and everything a test wants to do with them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Self, TypeVar, final

from dwell.broker.api.table import KINDS
from dwell.broker.handle import BrokerHandle, ControllerHandle, PartitionHandle
from dwell.broker.host import Host
from dwell.broker.option import Options
from dwell.broker.request import RequestLine
from dwell.broker.server.listener import Listener, Port
from dwell.broker.statistic import ClusterStatistics
from dwell.broker.timeline import Timeline, timeline
from dwell.broker.topic import StoredRecord, TopicSpec, append_records, create, led, stored_records
from dwell.broker.waiting import Waiting
from dwell.clock import Clock
from dwell.errors import Closed, ErrorHandler, InvalidArgument, InvalidType, log_error

if TYPE_CHECKING:
    from dwell.purgatory import Purgatory

T = TypeVar("T")

_NAMES = count(1)
# A hop to the cluster's thread takes microseconds; if it takes this long, something is broken.
HOP_LIMIT_S = 60.0


@final
class Cluster:
    """Kafka brokers in this process, for tests and for learning. A context manager, also an async one.

        with Cluster(brokers=3, topics={"orders": {"partitions": 3, "replication": 3}}) as cluster:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

    topics            name -> number of partitions, or a dict: partitions, replication, min_insync, assignment, configs
    auto_create       whether asking for an unknown topic creates it, with `partitions` and `replication`
    min_insync        how many in-sync replicas acks=all needs, unless the topic says otherwise
    configs           further settings under Kafka's names: see `config.py`
    host, ports       where to listen; free ports on 127.0.0.1 unless told
    advertised_host   the name clients are told, if it is another
    racks             one per broker
    clock             `dwell.testing.ManualClock()`: only `advance` moves the time that requests wait for
    real              the waits that run in the machine's time even so: clients pair long polls with timeouts of theirs
    epoch_ms          the wall-clock time at the start; now, unless told
    seed              ids are drawn from it: the same seed, the same ids
    session_ms        how long after a broker's death others take over
    memory_bytes      what all logs may hold; beyond it records are refused, never dropped
    on_error          called with exceptions of our own handlers and operations; logged, unless told

    Every call may be made from any thread; each is a hop to the cluster's own thread.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        topics: Mapping[str, int | Mapping[str, Any]] | None = None,
        auto_create: bool = True,
        partitions: int | None = None,
        replication: int | None = None,
        min_insync: int | None = None,
        configs: Mapping[str, object] | None = None,
        host: str = "127.0.0.1",
        ports: Sequence[int] = (),
        advertised_host: str | None = None,
        racks: Sequence[str] = (),
        clock: Clock | None = None,
        real: Sequence[str] = ("fetch",),
        epoch_ms: int | None = None,
        seed: int = 0,
        session_ms: int = 0,
        memory_bytes: int = 1024**3,
        max_request_bytes: int = 100 * 1024**2,
        max_connections: int = 10_000,
        on_error: ErrorHandler | None = None,
    ) -> None:
        given = {
            "auto.create.topics.enable": auto_create,
            "num.partitions": partitions,
            "default.replication.factor": replication,
            "min.insync.replicas": min_insync,
        }
        settings = {name: value for name, value in given.items() if value is not None} | dict(configs or {})
        self._options = Options(
            brokers=brokers,
            configs=settings,
            host=host,
            advertised_host=advertised_host,
            racks=tuple(racks),
            real=tuple(real),
            seed=seed,
            session_ms=session_ms,
            memory_bytes=memory_bytes,
            max_request_bytes=max_request_bytes,
            max_connections=max_connections,
            epoch_ms=int(time.time() * 1000) if epoch_ms is None else epoch_ms,
        )
        if ports and len(ports) != brokers:
            raise InvalidArgument(f"ports must name one port per broker: {brokers}, not {len(ports)}")
        self._wanted_ports = tuple(ports) or (0,) * brokers
        if topics is not None and not isinstance(topics, Mapping):
            raise InvalidType(f"topics must be a dict from name to partitions, not {topics!r}")
        if clock is not None and not callable(getattr(clock, "now_ms", None)):
            raise InvalidType(f"clock must have now_ms(), not {clock!r}")
        self._topics = {name: TopicSpec.of(name, spec) for name, spec in (topics or {}).items()}
        self._clock = clock
        self._on_error = log_error if on_error is None else on_error
        self.name = f"cluster-{next(_NAMES)}"
        self._host: Host | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ports: list[Port] = []
        self._listeners: list[Listener] = []
        self._is_closed = False
        # What other threads wait for: whoever is left when the thread ends is told.
        self._awaited: set[Future[Any]] = set()

    # Start and end

    def start(self) -> Self:
        """Bind the ports, start the thread, create the topics. `with` does this."""
        if self._is_closed or self._thread is not None:
            raise Closed("a cluster is started once")
        try:
            for number in self._wanted_ports:
                self._ports.append(Port(self._options.host, number))
        except InvalidArgument:
            self._close_ports()
            raise
        self._options = replace(self._options, ports=tuple(port.number for port in self._ports))
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name=f"dwell-{self.name}", daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self._is_closed = True
            self._thread.join()
            self._close_ports()
            raise
        return self

    def close(self) -> None:
        """End all connections and the thread. May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            if self._thread is not threading.current_thread():
                self._thread.join()
        self._close_ports()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.get_running_loop().run_in_executor(None, self.start)

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def _run(self, started: Future[None]) -> None:
        loop = asyncio.new_event_loop()
        self._loop = loop
        try:
            try:
                self._host = Host(self._options, clock=self._clock, loop=loop, on_error=self._on_error)
                for spec in self._topics.values():
                    create(self._host, spec)
                loop.run_until_complete(self._listen())
            except BaseException as error:
                started.set_exception(error)
                return
            started.set_result(None)
            loop.run_forever()
        finally:
            for listener in self._listeners:
                listener.stop()
            if self._host is not None:
                self._host.close()
            # One more turn: transports that were aborted close their sockets in it.
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
            for future in list(self._awaited):
                if not future.done():
                    future.set_exception(Closed("the cluster was closed meanwhile"))

    async def _listen(self) -> None:
        assert self._host is not None
        assert self._loop is not None
        for broker, port in zip(self._host.brokers, self._ports, strict=True):
            listener = Listener(broker, port, self._loop)
            self._listeners.append(listener)
            await listener.start()

    def _close_ports(self) -> None:
        for port in self._ports:
            port.close()

    # Hops to the cluster's thread

    @property
    def _running(self) -> tuple[Host, asyncio.AbstractEventLoop]:
        if self._host is None or self._loop is None or self._is_closed:
            raise Closed("the cluster is not running: use it inside its `with` block")
        return self._host, self._loop

    def call(self, function: Callable[[Host], T]) -> T:
        """Run `function` in the cluster's thread, and all that follows from it; returns its result."""
        host, loop = self._running
        if threading.current_thread() is self._thread:
            return function(host)
        result: Future[T] = Future()

        def run() -> None:
            try:
                value = function(host)
                host.agenda.drain()
            except BaseException as error:
                result.set_exception(error)
            else:
                result.set_result(value)

        with self._await(result):
            try:
                loop.call_soon_threadsafe(run)
            except RuntimeError:
                raise Closed("the cluster was closed meanwhile") from None
            return result.result(HOP_LIMIT_S)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the cluster's loop; returns its result."""
        _, loop = self._running
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        with self._await(future):
            return future.result(HOP_LIMIT_S)

    @contextmanager
    def _await(self, future: Future[Any]) -> Iterator[None]:
        """While a thread waits for `future`; it is told if the cluster is closed, before or meanwhile."""
        self._awaited.add(future)
        try:
            if self._loop is None or self._loop.is_closed():
                raise Closed("the cluster was closed meanwhile")
            yield
        finally:
            self._awaited.discard(future)

    # Where, and who

    @property
    def bootstrap_servers(self) -> str:
        """For a client's configuration: all addresses, with commas."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def brokers(self) -> list[BrokerHandle]:
        return [self.broker(broker_id) for broker_id in range(self._options.brokers)]

    def broker(self, broker_id: int) -> BrokerHandle:
        self._running  # noqa: B018  (raises if it is not)
        if isinstance(broker_id, bool) or broker_id not in range(self._options.brokers):
            raise InvalidArgument(f"there is no broker {broker_id!r}: they are 0 to {self._options.brokers - 1}")
        host = self._options.advertised_host or self._options.host
        address = f"[{host}]" if ":" in host else host
        address += f":{self._ports[broker_id].number}"
        return BrokerHandle(self, broker_id, address, self._listeners[broker_id])

    @property
    def controller(self) -> ControllerHandle:
        return ControllerHandle(self)

    def partition(self, topic: str, index: int) -> PartitionHandle:
        """One partition, as the controller and its leader know it now."""

        def check(host: Host) -> None:
            if host.controller.image.partition(topic, index) is None:
                raise InvalidArgument(
                    f"there is no partition {topic}-{index}; topics: {sorted(host.controller.image.topics)}"
                )

        self.call(check)
        return PartitionHandle(self, topic, index)

    # Topics and records

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication: int | None = None,
        min_insync: int | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic; `InvalidArgument` says why it cannot be."""
        spec = TopicSpec(name, partitions, replication, min_insync, assignment, dict(configs or {}))
        self.call(lambda host: create(host, spec))

    def delete_topic(self, name: str) -> None:
        self._known(name)
        self.call(lambda host: host.controller.delete_topic(name))

    def add_partitions(self, name: str, to: int) -> None:
        """Let a topic have `to` partitions from now on."""
        self._known(name)
        now = self.call(lambda host: len(host.controller.image.partitions[name]))
        if to <= now:
            raise InvalidArgument(f"{name!r} has {now} partitions already: {to} are not more")
        self.call(lambda host: host.controller.add_partitions(name, to, None))

    def produce(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> StoredRecord:
        """Append one record without a client, as acks=1 would; returns it with its place."""
        return self.call(lambda host: append_records(host, topic, value, key, headers, partition, timestamp_ms))

    def records(self, topic: str) -> list[StoredRecord]:
        """What a consumer of the whole topic could read now, partition by partition."""
        self._known(topic)
        return self.call(lambda host: stored_records(host, topic))

    def wait_for_records(self, topic: str, n: int, *, timeout_s: float = 10.0) -> list[StoredRecord]:
        """Wait until a consumer could read `n` records; returns them."""

        def enough(host: Host) -> list[StoredRecord] | None:
            if topic not in host.controller.image.topics:
                return None
            readable = sum(one.high_watermark - one.log.start_offset for one in led(host, topic))
            return stored_records(host, topic) if readable >= n else None

        def missing(host: Host) -> str:
            there = len(stored_records(host, topic)) if topic in host.controller.image.topics else 0
            return f"{topic!r} has {there} of {n} records"

        return self._wait(enough, missing, timeout_s)

    def _known(self, topic: str) -> None:
        known = self.call(lambda host: sorted(host.controller.image.topics))
        if topic not in known:
            raise InvalidArgument(f"there is no topic {topic!r}; topics: {known}")

    # What waits for what

    def waiting(self, kind: str | None = None) -> list[Waiting]:
        """The clients' requests that wait now, the oldest first."""
        _check_kind(kind)
        return self.call(lambda host: _waiting(host, kind, None, None, None))

    def wait_for(
        self,
        kind: str | None = None,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
        timeout_s: float = 10.0,
    ) -> Waiting:
        """Wait, in real time, until such a request is parked; returns the first one."""
        _check_kind(kind)
        return self._wait(_parked(kind, topic, client_id, broker), _nothing_parked(kind), timeout_s)

    async def until(
        self,
        kind: str | None = None,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
        timeout_s: float = 10.0,
    ) -> Waiting:
        """`wait_for` as an awaitable."""
        _check_kind(kind)
        found, forget = self._when(_parked(kind, topic, client_id, broker))
        try:
            with self._await(found):
                return await asyncio.wait_for(asyncio.wrap_future(found), timeout_s)
        except TimeoutError:
            raise TimeoutError(f"after {timeout_s:g} s {self.call(_nothing_parked(kind))}") from None
        finally:
            forget()

    def _wait(self, condition: Callable[[Host], T | None], missing: Callable[[Host], str], timeout_s: float) -> T:
        found, forget = self._when(condition)
        try:
            with self._await(found):
                return found.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(f"after {timeout_s:g} s {self.call(missing)}") from None
        finally:
            forget()

    def _when(self, condition: Callable[[Host], T | None]) -> tuple[Future[T], Callable[[], None]]:
        if threading.current_thread() is self._thread:
            raise InvalidArgument("the cluster's own thread cannot wait for what it does itself")
        found: Future[T] = Future()

        def look(host: Host) -> T | None:
            try:
                return condition(host)
            except Exception as error:
                if not found.done():
                    found.set_exception(error)
                return None

        def tell(value: T) -> None:
            if not found.done():
                found.set_result(value)

        forget = self.call(lambda host: host.when(lambda: look(host), tell))

        def give_up() -> None:
            with suppress(Closed):
                self.call(lambda _host: forget())

        return found, give_up

    # Time

    def advance(self, ms: int) -> list[Waiting]:
        """Move the manual clock by `ms`, from deadline to deadline; returns the clients' requests that expired."""
        return self.call(lambda host: host.advance(ms))

    # The past

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[RequestLine]:
        """The last 10,000 requests, the oldest first."""

        def collect(host: Host) -> list[RequestLine]:
            return [
                RequestLine.of(request)
                for request in host.requests
                if api in (None, request.api.name) and client_id in (None, request.client_id)
            ]

        return self.call(collect)

    def timeline(self, request: RequestLine | Waiting | int) -> Timeline:
        """What happened to a request, step by step."""
        number = (
            request
            if isinstance(request, int)
            else request.number
            if isinstance(request, RequestLine)
            else request.request
        )

        def find(host: Host) -> Timeline:
            for one in reversed(host.requests):
                if one.number == number:
                    return timeline(one)
            raise InvalidArgument(f"request {number} is not among the last {len(host.requests)}")

        return self.call(find)

    # Figures

    @property
    def purgatories(self) -> list[Purgatory]:
        """All of them, for `dwell.serve_statistics` and Prometheus."""
        return self.call(lambda host: [broker.purgatory(kind) for broker in host.brokers for kind in KINDS])

    def statistics(self) -> ClusterStatistics:
        return self.call(_statistics)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "running" if self._host is not None else "not started"
        return f"<Cluster {self.name} of {self._options.brokers} brokers, {state}>"


def _check_kind(kind: str | None) -> None:
    kinds = [one for one in KINDS if one != "replica_fetch"]
    if kind is not None and kind not in kinds:
        raise InvalidArgument(f"kind must be one of {', '.join(kinds)}, not {kind!r}")


def _waiting(
    host: Host, kind: str | None, topic: str | None, client_id: str | None, broker: int | None
) -> list[Waiting]:
    return [
        Waiting.of(operation)
        for operation in host.parked
        if kind in (None, operation.kind)
        and client_id in (None, operation.request.client_id)
        and broker in (None, operation.request.broker.id)
        and (topic is None or topic in operation.topics())
    ]


def _parked(
    kind: str | None, topic: str | None, client_id: str | None, broker: int | None
) -> Callable[[Host], Waiting | None]:
    return lambda host: next(iter(_waiting(host, kind, topic, client_id, broker)), None)


def _nothing_parked(kind: str | None) -> Callable[[Host], str]:
    def missing(host: Host) -> str:
        others = "; ".join(map(str, _waiting(host, None, None, None, None))) or "nothing"
        last = "; ".join(str(RequestLine.of(request)) for request in list(host.requests)[-3:]) or "none"
        return f"no such {kind or 'request'} is parked; waiting: {others}; last requests: {last}"

    return missing


def _statistics(host: Host) -> ClusterStatistics:
    image = host.controller.image
    partitions = [one for partitions in image.partitions.values() for one in partitions]
    waiting: dict[str, int] = {}
    for operation in host.parked:
        waiting[operation.kind] = waiting.get(operation.kind, 0) + 1
    return ClusterStatistics(
        brokers_up=sum(broker.is_alive for broker in host.brokers),
        topics=len(image.topics),
        partitions=len(partitions),
        offline_partitions=sum(one.leader < 0 for one in partitions),
        under_replicated_partitions=sum(one.leader >= 0 and len(one.isr) < len(one.replicas) for one in partitions),
        log_bytes=host.measure(),
        connections=sum(len(broker.connections) for broker in host.brokers),
        requests=host.num_requests,
        waiting=waiting,
        purgatories=tuple(purgatory.statistics() for purgatory in host.purgatories),
    )
