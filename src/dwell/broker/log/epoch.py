"""Which leader wrote which offsets: the first offset of every leader epoch of a log.

A follower that comes back compares its last epoch with the leader's list and cuts off what the leader never had.

    epochs 0 -> 0, 3 -> 40, 4 -> 55, log end 60
    end_offset(0) = (0, 40)      the epoch's offsets end where the next one starts
    end_offset(2) = (0, 40)      no leader with epoch 2 wrote here: the largest epoch below it
    end_offset(4) = (4, 60)      the last epoch ends at the log end
"""

from __future__ import annotations

from bisect import bisect_right

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1


class LeaderEpochs:
    """Two parallel lists, both ascending."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def last(self) -> int:
        """The newest epoch with records here; -1 if there is none."""
        return self._epochs[-1] if self._epochs else UNKNOWN_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` starts at `start_offset`, unless it is known. Epochs without a record are forgotten."""
        if not self._epochs or epoch > self._epochs[-1]:
            self.truncate_from_end(start_offset)
            self._epochs.append(epoch)
            self._starts.append(start_offset)

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch at or below `epoch`, and where its offsets end; (-1, -1) if there is none."""
        if not self._epochs or epoch < 0:
            return UNKNOWN_EPOCH, UNKNOWN_OFFSET
        place = bisect_right(self._epochs, epoch) - 1
        if place == len(self._epochs) - 1:
            # Kafka: an epoch newer than any here is unknown, but the current one ends at the log end.
            if epoch > self._epochs[-1]:
                return UNKNOWN_EPOCH, UNKNOWN_OFFSET
            return self._epochs[-1], log_end
        if place < 0:
            return epoch, self._starts[0]
        return self._epochs[place], self._starts[place + 1]

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 if it lies before the first known."""
        place = bisect_right(self._starts, offset) - 1
        return self._epochs[place] if place >= 0 else UNKNOWN_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that start at or after `end_offset`."""
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that end before `start_offset`; the one it lies in now starts there."""
        keep = max(0, bisect_right(self._starts, start_offset) - 1)
        del self._starts[:keep], self._epochs[:keep]
        if self._starts and self._starts[0] < start_offset:
            self._starts[0] = start_offset

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))
