"""The log of one replica: record batches by reference, found by offset and by time.

A batch lies in memory once, however many replicas hold it: leader and followers keep references to the same object.
Next to the list of batches the log keeps three arrays of the same length, so that every look-up is a binary search:

    batch            0..4     5..5     6..9        offsets 0 to 9, the log end is 10
    _bases           0        5        6           first offset of each batch
    _positions       0        300      420         bytes before each batch, counted since the log began
    _latest          1000     1700     1700        greatest timestamp up to and including the batch (never falls)

Positions make "how many bytes lie between these offsets" one subtraction, which is what a waiting fetch asks at every
append.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from dwell.broker.log.epoch import LeaderEpochs
from dwell.broker.log.producer import Producers
from dwell.broker.record.batch import Batch
from dwell.broker.record.record import read_records


class Log:
    """Offsets from `start_offset` up to, not including, `end_offset`."""

    __slots__ = (
        "_bases",
        "_batches",
        "_latest",
        "_positions",
        "end_offset",
        "end_position",
        "epochs",
        "producers",
        "start_offset",
    )

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        # Bytes ever appended and not truncated; positions are counted on the same scale.
        self.end_position = 0
        self.epochs = LeaderEpochs()
        self.producers = Producers()
        self._batches: list[Batch] = []
        self._bases: array[int] = array("q")
        self._positions: array[int] = array("q")
        self._latest: array[int] = array("q")

    # Writing

    def append(self, batch: Batch) -> None:
        """Append a batch whose offsets and leader epoch are assigned. O(1)."""
        self._batches.append(batch)
        self._bases.append(batch.base_offset)
        self._positions.append(self.end_position)
        latest = batch.max_timestamp
        if self._latest and self._latest[-1] > latest:
            latest = self._latest[-1]
        self._latest.append(latest)
        self.end_offset = batch.next_offset
        self.end_position += len(batch)
        if batch.leader_epoch > self.epochs.last:
            self.epochs.assign(batch.leader_epoch, batch.base_offset)
        if batch.producer_id >= 0:
            self.producers.append(batch)

    def delete_before(self, offset: int) -> bool:
        """Move the log start to `offset` and drop the batches that end before it. False if it is there already."""
        if offset <= self.start_offset:
            return False
        if offset > self.end_offset:
            self.reset(offset)
            return True
        self.start_offset = offset
        keep = self._place(offset) if offset < self.end_offset else len(self._batches)
        if keep:
            del self._batches[:keep], self._bases[:keep], self._positions[:keep], self._latest[:keep]
            self._count_latest()
        self.epochs.truncate_from_start(offset)
        return True

    def truncate_to(self, offset: int) -> bool:
        """Drop everything at and after `offset`; a batch that contains it goes as a whole. False if nothing is."""
        if offset >= self.end_offset:
            # An epoch that has written nothing goes too: its leader is not known to have been one.
            self.epochs.truncate_from_end(self.end_offset)
            return False
        keep = bisect_left(self._bases, offset)
        if keep and self._batches[keep - 1].last_offset >= offset:
            keep -= 1
        if keep < len(self._batches):
            self.end_offset = self._bases[keep]
            self.end_position = self._positions[keep]
            del self._batches[keep:], self._bases[keep:], self._positions[keep:], self._latest[keep:]
        else:
            self.end_offset = offset
        self.start_offset = min(self.start_offset, self.end_offset)
        self.epochs.truncate_from_end(self.end_offset)
        self.producers.clear()
        for batch in self._batches:
            if batch.has_producer:
                self.producers.append(batch)
        return True

    def reset(self, offset: int) -> None:
        """Drop everything and go on at `offset`."""
        del self._batches[:], self._bases[:], self._positions[:], self._latest[:]
        self.start_offset = self.end_offset = offset
        self.epochs = LeaderEpochs()
        self.producers = Producers()

    # Reading

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.end_position - self._positions[0] if self._positions else 0

    def position(self, offset: int) -> int:
        """Bytes before the batch that contains `offset`; the log end has the position of all bytes."""
        if offset >= self.end_offset:
            return self.end_position
        return self._positions[self._place(offset)] if self._positions else self.end_position

    def read(self, offset: int, end_offset: int, max_bytes: int, at_least_one: bool) -> list[Batch]:
        """The batches from the one that contains `offset`, all before `end_offset`, in at most `max_bytes`.

        With `at_least_one` the first batch is returned even if it alone is larger.
        """
        if offset >= end_offset or offset >= self.end_offset or not self._batches:
            return []
        first = self._place(offset)
        end = bisect_left(self._bases, end_offset, first)
        limit = self._positions[first] + max_bytes
        end_position = self._positions[end] if end < len(self._positions) else self.end_position
        if end_position > limit:
            # The last batch whose end lies within the limit.
            end = bisect_right(self._positions, limit, first, end) - 1
            if end <= first:
                end = first + 1 if at_least_one else first
        return self._batches[first:end]

    def batches(self, offset: int | None = None) -> Iterator[Batch]:
        """All batches from the one that contains `offset`."""
        first = 0 if offset is None else self._place(offset) if offset < self.end_offset else len(self._batches)
        return iter(self._batches[first:])

    def find_time(self, timestamp_ms: int, end_offset: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record before `end_offset` that is not older than `timestamp_ms`."""
        place = bisect_left(self._latest, timestamp_ms)
        for batch in self._batches[place:]:
            if batch.base_offset >= end_offset:
                return None
            if batch.max_timestamp < timestamp_ms:
                continue
            for record in read_records(batch):
                if record.timestamp_ms >= timestamp_ms and record.offset >= self.start_offset:
                    return (record.offset, record.timestamp_ms) if record.offset < end_offset else None
        return None

    def find_latest_time(self, end_offset: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record with the greatest timestamp before `end_offset`."""
        end = bisect_left(self._bases, end_offset)
        if not end:
            return None
        batch = self._batches[bisect_left(self._latest, self._latest[end - 1])]
        found = [record for record in read_records(batch) if self.start_offset <= record.offset < end_offset]
        if not found:
            return None
        latest = max(found, key=lambda record: record.timestamp_ms)
        return latest.offset, latest.timestamp_ms

    def find_batch_time(self, timestamp_ms: int, end_offset: int) -> tuple[int, int] | None:
        """Like the two above, without looking into batches: the first offset and greatest timestamp of the batch."""
        if timestamp_ms < 0:
            end = bisect_left(self._bases, end_offset)
            timestamp_ms = self._latest[end - 1] if end else 0
        for batch in self._batches[bisect_left(self._latest, timestamp_ms) :]:
            if batch.base_offset < end_offset and batch.max_timestamp >= timestamp_ms:
                return max(batch.base_offset, self.start_offset), batch.max_timestamp
        return None

    def __len__(self) -> int:
        return len(self._batches)

    def _place(self, offset: int) -> int:
        """Which batch contains `offset`."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def _count_latest(self) -> None:
        latest = -1
        for place, batch in enumerate(self._batches):
            latest = max(latest, batch.max_timestamp)
            self._latest[place] = latest
