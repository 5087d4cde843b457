"""Random histories of a cluster without sockets, and a small independent model that watches them.

A history is drawn from a seed: clients produce, fetch and delete records while followers freeze and lag, leaders move,
brokers die, come back or are cut off, metadata is late and the controller pauses. The model knows nothing of high
watermarks or in-sync sets. It remembers what clients were told: a record that was acknowledged with acks=all, or that a
consumer has read, is at its offset for ever. After each step it looks at the state of the brokers as well (`check`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from dwell.broker.delayed.delete_records import DelayedDeleteRecords
from dwell.broker.delayed.fetch import DelayedFetch
from dwell.broker.delayed.produce import DelayedProduce
from dwell.broker.record.batch import read_batches
from dwell.broker.record.record import Record, read_records, write_batch
from dwell.broker.replica.partition import Partition
from dwell.broker.wire import Error
from dwell.broker.wire.message.fetch import FETCH
from dwell.broker.wire.message.produce import PRODUCE
from dwell.broker.wire.message.topic import DELETE_RECORDS
from tests.broker.core import Client, make_host

TOPIC = "orders"
PARTITIONS = 2
BROKERS = 3
TIMEOUTS_MS = (1, 20, 300, 2_000)
LAGS_MS = (0, 0, 5, 40)


@dataclass
class Sent:
    """A request without its answer."""

    kind: str
    partition: int
    at_ms: int
    timeout_ms: int
    acks: int = 0
    offset: int = 0
    values: list[bytes] = field(default_factory=list)
    # A batch of an idempotent producer that was sent before.
    is_again: bool = False


class Producer:
    """An idempotent producer of one partition: sends a batch again until it knows what became of it."""

    def __init__(self, producer_id: int, partition: int) -> None:
        self.id = producer_id
        self.partition = partition
        self.sequence = 0
        # The batch that was sent and not acknowledged, with its values.
        self.open: tuple[bytes, list[bytes]] | None = None


class History:
    """Runs one history. `AssertionError` if the cluster breaks a promise."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.min_insync = self.random.choice((1, 1, 2, 2, 3))
        self.host = make_host(
            BROKERS,
            {TOPIC: {"partitions": PARTITIONS, "replication": 3, "min_insync": self.min_insync}},
            configs={"replica.lag.time.max.ms": 500},
            session_ms=self.random.choice((0, 0, 50)),
            real=(),
            seed=seed,
        )
        self.clients: list[Client] = []
        self.brokers_of: dict[Client, int] = {}
        self.sent: dict[Client, list[Sent]] = {}
        # By partition and offset: what a client was told lies there.
        self.told: dict[tuple[int, int], bytes] = {}
        self.acknowledged: set[tuple[int, int]] = set()
        # The highest log start that was asked for, by partition: below it records may be gone.
        self.deleted: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self.high: dict[tuple[int, int, int], int] = {}
        self.producers = [Producer(1_000 + index, index) for index in range(PARTITIONS)]
        self.num_values = 0
        self.steps: list[str] = []

    # Steps

    def run(self, steps: int) -> None:
        choices = (
            [self.produce] * 8
            + [self.produce_idempotent] * 3
            + [self.fetch] * 7
            + [self.advance] * 5
            + [self.freeze, self.thaw, self.lag, self.move_leader, self.move_leader]
            + [self.kill, self.restart, self.restart, self.isolate, self.heal]
            + [self.delete_records, self.disconnect, self.controller, self.metadata_lag]
        )
        for _ in range(steps):
            step = self.random.choice(choices)
            self.steps.append(step.__name__)
            step()
            self.host.agenda.drain()
            self.collect()
            self.check()
        self.settle()

    def client(self, broker: int) -> Client:
        """One of two connections to a broker."""
        mine = [client for client in self.clients if self.brokers_of[client] == broker]
        if len(mine) < 2 or self.random.random() < 0.05:
            made = Client(self.host, broker)
            self.clients.append(made)
            self.brokers_of[made] = broker
            self.sent[made] = []
            return made
        return self.random.choice(mine)

    def broker_for(self, partition: int) -> int | None:
        """Mostly the leader, sometimes anybody; None if it is down."""
        image = self.host.controller.image.partition(TOPIC, partition)
        assert image is not None
        broker = image.leader if image.leader >= 0 and self.random.random() < 0.9 else self.random.randrange(BROKERS)
        return broker if self.host.brokers[broker].is_alive else None

    def values(self) -> list[bytes]:
        count = self.random.randint(1, 3)
        self.num_values += count
        return [b"%d" % (self.num_values - count + place) for place in range(count)]

    def produce(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        broker = self.broker_for(partition)
        if broker is None:
            return
        values = self.values()
        acks = self.random.choice((-1, -1, -1, 1, 0))
        timeout_ms = self.random.choice(TIMEOUTS_MS)
        client = self.client(broker)
        batch = write_batch([Record(offset=0, timestamp_ms=0, key=None, value=value) for value in values]).data
        if acks:
            self.sent[client].append(Sent("produce", partition, self.now, timeout_ms, acks, values=values))
        self.send_produce(client, partition, batch, acks, timeout_ms)

    def produce_idempotent(self) -> None:
        producer = self.random.choice(self.producers)
        broker = self.broker_for(producer.partition)
        in_flight = any(sent.is_again for waiting in self.sent.values() for sent in waiting)
        if broker is None or in_flight:
            return
        if producer.open is None:
            values = self.values()
            made = write_batch(
                [Record(offset=0, timestamp_ms=0, key=None, value=value) for value in values],
                producer_id=producer.id,
                producer_epoch=0,
                base_sequence=producer.sequence,
            )
            producer.open = (made.data, values)
            producer.sequence += len(values)
        batch, values = producer.open
        client = self.client(broker)
        timeout_ms = self.random.choice(TIMEOUTS_MS)
        self.sent[client].append(
            Sent("produce", producer.partition, self.now, timeout_ms, -1, values=values, is_again=True)
        )
        self.send_produce(client, producer.partition, batch, -1, timeout_ms)

    def send_produce(self, client: Client, partition: int, batch: bytes, acks: int, timeout_ms: int) -> None:
        request = PRODUCE.Request
        data = request.PartitionProduceData(index=partition, records=batch)
        topics = [request.TopicProduceData(name=TOPIC, partition_data=[data])]
        client.send(PRODUCE, 9, request(acks=acks, timeout_ms=timeout_ms, topic_data=topics))
        if acks == 0:
            client.unanswered()

    def fetch(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        broker = self.broker_for(partition)
        if broker is None:
            return
        known = [offset for one, offset in self.told if one == partition]
        offset = self.random.choice(
            (0, self.deleted[partition], max(known, default=-1) + 1, self.random.randint(0, 30))
        )
        wait_ms = self.random.choice((0, *TIMEOUTS_MS))
        client = self.client(broker)
        self.sent[client].append(Sent("fetch", partition, self.now, wait_ms, offset=offset))
        request = FETCH.Request
        asked = request.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=2**20)
        client.send(
            FETCH,
            11,
            request(
                max_wait_ms=wait_ms,
                min_bytes=self.random.choice((1, 1, 200)),
                topics=[request.FetchTopic(topic=TOPIC, partitions=[asked])],
            ),
        )

    def delete_records(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        broker = self.broker_for(partition)
        if broker is None:
            return
        known = [offset for one, offset in self.told if one == partition]
        offset = self.random.randint(0, max(known, default=0))
        self.deleted[partition] = max(self.deleted[partition], offset)
        client = self.client(broker)
        timeout_ms = self.random.choice(TIMEOUTS_MS)
        self.sent[client].append(Sent("delete_records", partition, self.now, timeout_ms, offset=offset))
        request = DELETE_RECORDS.Request
        asked = request.DeleteRecordsPartition(partition_index=partition, offset=offset)
        topics = [request.DeleteRecordsTopic(name=TOPIC, partitions=[asked])]
        client.send(DELETE_RECORDS, 2, request(topics=topics, timeout_ms=timeout_ms))

    def advance(self) -> None:
        """In small steps, so that the model sees each answer at its time."""
        self.step_time(self.random.choice((1, 5, 20, 100, 700)))

    def step_time(self, ms: int) -> None:
        end_ms = self.now + ms
        while self.now < end_ms:
            deadlines = [
                sent.at_ms + sent.timeout_ms
                for waiting in self.sent.values()
                for sent in waiting
                if sent.at_ms + sent.timeout_ms > self.now
            ]
            self.host.advance(min([end_ms, *deadlines]) - self.now)
            self.collect()

    def freeze(self) -> None:
        self.host.freeze(self.random.randrange(BROKERS))

    def thaw(self) -> None:
        self.host.thaw(self.random.randrange(BROKERS))

    def lag(self) -> None:
        self.host.brokers[self.random.randrange(BROKERS)].lag_ms = self.random.choice(LAGS_MS)

    def metadata_lag(self) -> None:
        self.host.brokers[self.random.randrange(BROKERS)].metadata_lag_ms = self.random.choice(LAGS_MS)

    def controller(self) -> None:
        controller = self.host.controller
        if self.random.random() < 0.5:
            controller.delay_ms = self.random.choice(LAGS_MS)
        else:
            controller.is_paused = not controller.is_paused
            controller.decide()

    def move_leader(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        self.host.controller.move_leader(TOPIC, partition, self.random.randrange(BROKERS))

    def kill(self) -> None:
        broker = self.random.randrange(BROKERS)
        self.host.kill(broker)
        self.forget(broker)

    def restart(self) -> None:
        down = [broker.id for broker in self.host.brokers if not broker.is_alive]
        if down:
            self.host.restart(self.random.choice(down))

    def isolate(self) -> None:
        self.host.isolate(self.random.randrange(BROKERS))

    def heal(self) -> None:
        self.host.heal(self.random.randrange(BROKERS))

    def disconnect(self) -> None:
        if self.clients:
            self.drop(self.random.choice(self.clients), closed=False)

    def forget(self, broker: int) -> None:
        for client in [client for client in self.clients if self.brokers_of[client] == broker]:
            assert client.connection.is_closed
            self.drop(client, closed=True)

    def drop(self, client: Client, *, closed: bool) -> None:
        if not closed:
            self.host.agenda.drain()
            self.collect()
            client.connection.lost()
        assert client.take() == []
        self.clients.remove(client)
        del self.sent[client]

    @property
    def now(self) -> int:
        return self.host.now_ms()

    # What clients are told

    def collect(self) -> None:
        for client in list(self.clients):
            waiting = self.sent[client]
            for answer in client.take():
                sent = waiting.pop(0)
                getattr(self, f"told_{sent.kind}")(sent, answer)
            if client.connection.is_closed:
                # acks=0 and an error: the broker hangs up.
                self.drop(client, closed=True)
        self.check_lateness()

    def check_lateness(self) -> None:
        """An answer may be late only if its broker is cut off, or an earlier request of its connection was."""
        for client, waiting in self.sent.items():
            in_flight = client.connection.in_flight
            if waiting and in_flight is not None and in_flight.operation is not None:
                assert self.now < in_flight.received_ms + waiting[0].timeout_ms, waiting[0]

    def told_produce(self, sent: Sent, answer: Any) -> None:
        partition = answer.responses[0].partition_responses[0]
        error = Error(partition.error_code)
        if error is Error.NONE and sent.acks == -1:
            for place, value in enumerate(sent.values):
                self.tell(sent.partition, partition.base_offset + place, value)
                self.acknowledged.add((sent.partition, partition.base_offset + place))
        if sent.is_again and error is Error.NONE:
            self.producers[sent.partition].open = None
        allowed = {
            Error.NONE,
            Error.REQUEST_TIMED_OUT,
            Error.NOT_LEADER_OR_FOLLOWER,
            Error.NOT_ENOUGH_REPLICAS,
            Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        }
        assert error in allowed, error

    def told_fetch(self, sent: Sent, answer: Any) -> None:
        partition = answer.responses[0].partitions[0]
        error = Error(partition.error_code)
        assert error in {Error.NONE, Error.NOT_LEADER_OR_FOLLOWER, Error.OFFSET_OUT_OF_RANGE}, error
        for batch in read_batches(partition.records or b""):
            assert batch.is_valid
            for record in read_records(batch):
                assert record.offset < partition.high_watermark
                assert record.value is not None
                self.tell(sent.partition, record.offset, record.value)

    def told_delete_records(self, sent: Sent, answer: Any) -> None:
        partition = answer.topics[0].partitions[0]
        if Error(partition.error_code) is Error.NONE:
            assert partition.low_watermark >= sent.offset

    def tell(self, partition: int, offset: int, value: bytes) -> None:
        known = self.told.setdefault((partition, offset), value)
        assert known == value, f"{TOPIC}-{partition} at {offset}: {known!r} was told before, now {value!r}"

    # What must be true of the brokers

    def replicas(self, index: int) -> list[Partition]:
        return [broker.partitions[TOPIC, index] for broker in self.host.brokers if (TOPIC, index) in broker.partitions]

    def check(self) -> None:
        for index in range(PARTITIONS):
            image = self.host.controller.image.partition(TOPIC, index)
            assert image is not None
            leaders = [one for one in self.replicas(index) if one.is_leader]
            assert len({one.image.leader_epoch for one in leaders}) == len(leaders), "two leaders in one epoch"
            for one in self.replicas(index):
                self.check_log(one)
            for leader in leaders:
                if leader.image.leader_epoch == image.leader_epoch:
                    self.check_leader(leader, image.isr)
        self.check_parked()

    def check_log(self, one: Partition) -> None:
        log = one.log
        end = None
        for batch in log.batches():
            assert end is None or batch.base_offset == end, "offsets are not dense"
            end = batch.next_offset
        assert end in (None, log.end_offset)
        assert log.start_offset <= one.high_watermark <= log.end_offset
        assert one.last_stable_offset <= one.high_watermark
        assert one.high_position == log.position(one.high_watermark)
        key = (one.broker.id, one.index, one.image.leader_epoch)
        if one.is_leader:
            assert self.high.get(key, 0) <= one.high_watermark, "the high watermark fell"
            self.high[key] = one.high_watermark

    def check_leader(self, leader: Partition, isr: tuple[int, ...]) -> None:
        for replica in isr:
            other = self.host.brokers[replica].partitions.get((TOPIC, leader.index))
            if other is not None:
                assert leader.high_watermark <= other.log.end_offset, f"replica {replica} is in sync and behind"

    def check_parked(self) -> None:
        """What waits must have a reason to: conditions written down here once more, from the state alone."""
        for operation in self.host.parked:
            assert not operation.is_completed
            broker = operation.request.broker
            assert broker.is_alive
            if isinstance(operation, DelayedProduce):
                for pending in operation.pending:
                    one = pending.partition
                    assert one.is_leader
                    assert not one.is_deleted
                    assert one.high_watermark < pending.required
            elif isinstance(operation, DelayedFetch):
                size = 0
                for asked in operation.partitions:
                    assert asked.partition is not None
                    assert asked.partition.is_leader
                    assert asked.partition.log.start_offset <= asked.offset <= asked.partition.log.end_offset
                    size += sum(
                        len(batch)
                        for batch in asked.partition.log.batches(asked.offset)
                        if batch.base_offset < asked.partition.high_watermark and batch.last_offset >= asked.offset
                    )
                assert size < operation.min_bytes
            elif isinstance(operation, DelayedDeleteRecords):
                for wanted in operation.pending:
                    assert wanted.partition.is_leader
                    assert wanted.partition.low_watermark < wanted.required

    # The end

    def settle(self) -> None:
        """Mend everything. Then all replicas are in sync and equal, and nothing that was told is missing."""
        host = self.host
        host.controller.delay_ms = 0
        host.controller.is_paused = False
        host.controller.decide()
        for broker in host.brokers:
            broker.lag_ms = broker.metadata_lag_ms = 0
            host.thaw(broker.id)
            host.heal(broker.id)
        for broker in host.brokers:
            if not broker.is_alive:
                host.restart(broker.id)
        self.step_time(5_000)
        self.check()
        assert not host.parked
        assert all(not waiting for waiting in self.sent.values()), "a request was never answered"
        for index in range(PARTITIONS):
            image = host.controller.image.partition(TOPIC, index)
            assert image is not None
            assert set(image.isr) == set(range(BROKERS)), f"in sync are only {image.isr}"
            leader = host.brokers[image.leader].partitions[TOPIC, index]
            assert leader.is_leader
            assert leader.high_watermark == leader.log.end_offset
            found = {record.offset: record.value for batch in leader.log.batches() for record in read_records(batch)}
            for one in self.replicas(index):
                assert one.log.end_offset == leader.log.end_offset
                # A leader that was away when records were deleted may still have them.
                start = max(one.log.start_offset, leader.log.start_offset)
                assert [batch.data for batch in one.log.batches(start)] == [
                    batch.data for batch in leader.log.batches(start)
                ]
            assert leader.log.start_offset <= self.deleted[index]
            for (partition, offset), value in self.told.items():
                if partition == index and offset >= leader.log.start_offset:
                    assert found.get(offset) == value, f"{TOPIC}-{index} at {offset}: {value!r} is lost"
            mine = {value for producer in self.producers for value in (producer.open or (b"", []))[1]}
            exactly_once = [value for value in found.values() if value in mine]
            assert len(exactly_once) == len(set(exactly_once))
            assert len(set(found.values())) == len(found), "a record is there twice"
        host.close()
