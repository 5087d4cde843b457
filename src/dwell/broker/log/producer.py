"""What a log remembers of idempotent producers: their epoch and their last five batches.

A batch that comes again (the answer was lost, the client sends it once more) is recognised by its first and last
sequence number and is answered with the offsets it got the first time. Sequence numbers count records per producer and
partition, start at 0, and wrap to 0 after 2**31 - 1.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from dwell.broker.record.batch import Batch, next_sequence
from dwell.broker.wire.error import Error

NO_SEQUENCE = -1
# A client may have five requests in flight: any of their batches may come again.
BATCHES_KEPT = 5


class AppendedBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerState:
    """One producer in one log."""

    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[AppendedBatch] = deque(maxlen=BATCHES_KEPT)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Producers:
    """All producers of a log, by producer id."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}

    def check(self, batch: Batch) -> AppendedBatch | Error | None:
        """None if `batch` may be appended; the earlier batch if it is a duplicate; otherwise what is wrong with it."""
        state = self._states.get(batch.producer_id)
        if state is None:
            # A producer this log knows nothing of may start anywhere: its earlier records may have been deleted.
            return None
        if batch.producer_epoch < state.epoch:
            return Error.INVALID_PRODUCER_EPOCH
        if batch.producer_epoch > state.epoch:
            return None if batch.base_sequence == 0 else Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        first, last = batch.base_sequence, batch.last_sequence
        for appended in state.batches:
            if appended.first_sequence == first and appended.last_sequence == last:
                return appended
        if state.batches and first != next_sequence(state.last_sequence):
            return Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        return None

    def append(self, batch: Batch) -> None:
        """Remember a batch that was appended."""
        state = self._states.get(batch.producer_id)
        if state is None or batch.producer_epoch != state.epoch:
            state = self._states[batch.producer_id] = ProducerState(batch.producer_epoch)
        state.batches.append(
            AppendedBatch(
                batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset, batch.max_timestamp
            )
        )

    def clear(self) -> None:
        self._states.clear()

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def __len__(self) -> int:
        return len(self._states)
