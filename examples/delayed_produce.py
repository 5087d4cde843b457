"""A produce request that waits until all its partitions are replicated, as Kafka's `DelayedProduce` does.

python examples/delayed_produce.py
"""

from __future__ import annotations

from collections.abc import Callable

from dwell import DelayedOperation, Purgatory
from dwell.testing import ManualClock

# The offset up to which all replicas have a partition's records.
high_watermark = {"orders-0": 40, "orders-1": 70}


class DelayedProduce(DelayedOperation):
    """Answers when every partition's high watermark has reached the offset that the request's records need."""

    def __init__(self, delay_ms: int, required: dict[str, int], answer: Callable[[dict[str, str]], None]) -> None:
        super().__init__(delay_ms)
        self.required = required
        self.answer = answer
        self.status = dict.fromkeys(required, "REQUEST_TIMED_OUT")

    def try_complete(self) -> bool:
        for partition, offset in self.required.items():
            if partition not in high_watermark:
                self.status[partition] = "UNKNOWN_TOPIC_OR_PARTITION"
            elif high_watermark[partition] >= offset:
                self.status[partition] = "NONE"
        return "REQUEST_TIMED_OUT" not in self.status.values() and self.force_complete()

    def on_complete(self) -> None:
        self.answer(self.status)


def main() -> None:
    clock = ManualClock()
    with Purgatory("produce", clock=clock, reaper=False) as purgatory:
        required = {"orders-0": 42, "orders-1": 71}
        replicated = DelayedProduce(500, required, lambda status: print("replicated:", status))
        purgatory.try_complete_else_watch(replicated, required)

        high_watermark["orders-0"] = 42
        print("orders-0 moves, completed:", purgatory.check_and_complete("orders-0"))
        high_watermark["orders-1"] = 71
        print("orders-1 moves, completed:", purgatory.check_and_complete("orders-1"))

        required = {"orders-0": 43, "orders-1": 71}
        late = DelayedProduce(500, required, lambda status: print("half a second later:", status))
        purgatory.try_complete_else_watch(late, required)
        clock.advance(500)
        purgatory.advance()


if __name__ == "__main__":
    main()
