"""What would other timeouts have done? One settlement answers for all candidates.

When an operation's condition first holds does not depend on its delay. So the operations are settled once, with the
longest candidate, and each shorter one only asks how many of the waits fit into it.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

from dwell.errors import InvalidArgument, InvalidType
from dwell.spark.schema import plain_events, plain_operations
from dwell.spark.settle import settle_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

# Longer than any wait: an operation that did not complete.
_NEVER = 2**62


def curve(operations: DataFrame, events: DataFrame, delays_ms: Sequence[int]) -> DataFrame:
    """A row for each of `delays_ms`, had it been the delay of every operation, from the shortest:

        delay_ms, operations, completed, expired, expired_share, p50_ms, p90_ms, p99_ms

    The percentiles are of how long operations would have waited, the expired ones for the whole delay: the least wait
    that so large a share does not exceed. The operations' own `delay_ms` is not looked at. What is rejected with the
    longest delay is left out. Memory grows with the number of different waits in milliseconds, not with the operations.
    """
    candidates = _delays(delays_ms)
    each = ", ".join(f"struct({delay}L as delay_ms, count_if(wait <= {delay}) as completed)" for delay in candidates)
    shares = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
    found = _waits(operations, events, candidates[-1]).selectExpr(
        "count(*) as operations",
        f"array({each}) as each",
        *(f"{_least(share)} as {name}" for name, share in shares.items()),
    )
    return found.selectExpr("*", "inline(each)").selectExpr(
        "delay_ms",
        "operations",
        "completed",
        "operations - completed as expired",
        "try_divide(operations - completed, operations) as expired_share",
        *(f"if(operations > 0, least({name}, delay_ms), null) as {name}" for name in shares),
    )


def shortest_delay(operations: DataFrame, events: DataFrame, keep: Sequence[float], *, up_to_ms: int) -> DataFrame:
    """A row `keep, delay_ms` for each share to keep alive: the least delay with which that share completes.

    Null where no delay up to `up_to_ms` does.
    """
    for share in keep:
        if not 0 < share <= 1:
            raise InvalidArgument(f"keep must lie above 0 and not above 1, not {share!r}")
    if not keep:
        raise InvalidArgument("keep must name at least one share")
    each = ", ".join(f"struct({_double(share)} as keep, {_least(share)} as delay_ms)" for share in keep)
    found = _waits(operations, events, _delays([up_to_ms])[-1]).selectExpr(f"array({each}) as each")
    return found.selectExpr("inline(each)").selectExpr(
        "keep", f"if(delay_ms <= {up_to_ms}, delay_ms, null) as delay_ms"
    )


def _waits(operations: DataFrame, events: DataFrame, longest: int) -> DataFrame:
    """`wait`: how long each operation that is not rejected took to complete, `_NEVER` if longer than the longest."""
    plain = plain_operations(operations).selectExpr("* except (delay_ms)", f"{longest}L as delay_ms")
    settled = settle_plain(plain, plain_events(events), as_of_ms=None).where("outcome != 'rejected'")
    return settled.selectExpr(f"if(outcome = 'completed', waited_ms, {_NEVER}) as wait")


def _least(share: float) -> str:
    return f"cast(percentile_disc({_double(share)}) within group (order by wait) as bigint)"


def _double(share: float) -> str:
    return f"{float(share)!r}D"


def _delays(delays_ms: Sequence[int]) -> list[int]:
    try:
        delays = sorted({index(delay) for delay in delays_ms})
    except TypeError:
        raise InvalidType(f"delays_ms must be whole milliseconds, not {delays_ms!r}") from None
    if not delays:
        raise InvalidArgument("delays_ms must name at least one delay")
    if delays[0] < 0:
        raise InvalidArgument(f"delays_ms must not be negative: {delays[0]}")
    if delays[-1] >= 2**63:
        raise InvalidArgument(f"delays_ms must be 64-bit integers: {delays[-1]}")
    return delays
