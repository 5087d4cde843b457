"""A fetch request that waits for enough bytes, but not for ever, as Kafka's `DelayedFetch` does (a long poll).

python examples/delayed_fetch.py
"""

from __future__ import annotations

import asyncio

from dwell import DelayedOperation, Purgatory

log: dict[str, bytes] = {"orders-0": b"", "orders-1": b""}


class DelayedFetch(DelayedOperation):
    """Completes once `min_bytes` can be read from the given offsets; on expiry the answer is what is there."""

    def __init__(self, max_wait_ms: int, min_bytes: int, offsets: dict[str, int], max_bytes: int = 1_000) -> None:
        super().__init__(max_wait_ms)
        self.min_bytes = min_bytes
        self.offsets = offsets
        self.max_bytes = max_bytes
        self.data: dict[str, bytes] = {}

    def readable(self) -> dict[str, bytes]:
        return {key: log[key][offset:][: self.max_bytes] for key, offset in self.offsets.items()}

    def try_complete(self) -> bool:
        return sum(map(len, self.readable().values())) >= self.min_bytes and self.force_complete()

    def on_complete(self) -> None:
        self.data = self.readable()


def append(purgatory: Purgatory, partition: str, data: bytes) -> None:
    log[partition] += data
    purgatory.check_and_complete(partition)


async def main() -> None:
    with Purgatory("fetch") as purgatory:
        fetch = DelayedFetch(60_000, min_bytes=10, offsets={"orders-0": 0, "orders-1": 0})
        asyncio.get_running_loop().call_later(0.01, append, purgatory, "orders-0", b"seven b")
        asyncio.get_running_loop().call_later(0.02, append, purgatory, "orders-1", b"four")
        print("enough:", await purgatory.wait(fetch, fetch.offsets), fetch.data)

        fetch = DelayedFetch(30, min_bytes=10, offsets={"orders-0": 7, "orders-1": 2})
        print("enough:", await purgatory.wait(fetch, fetch.offsets), fetch.data)


if __name__ == "__main__":
    asyncio.run(main())
