"""Which ways do the operations take? Found out first, in one pass over them.

    alone     one need at most, where no op_id comes twice in the whole table
    together  one need or several, brought together by op_id
    summed    a volume over several keys

Each way has its events on the walks of `dwell.spark.met`, and only those that some need is in. Where there are none,
Spark's adaptive planner drops all that would follow on that way, the reading of the inputs included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from dwell.spark.fault import HAS_NO_OP_ID
from dwell.spark.met import LEVEL, SIGNAL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SEVERAL = "coalesce(size(needs), 0) > 1"

# A bit for each kind of operation on each walk: two for those with one need, two for several, two for volumes. Only the
# levels are looked at, so that of needs nothing else has to be read.
_BITS = f"""
    case when size(needs.level) > 1 and volume is not null then {1 << 4 + LEVEL}
         when size(needs.level) > 1 then if(get(sort_array(needs.level), 0) is null, {1 << 2 + SIGNAL}, 0)
                                         + if(array_max(needs.level) is null, 0, {1 << 2 + LEVEL})
         else if(get(needs.level, 0) is null, {1 << SIGNAL}, {1 << LEVEL})
    end as bits
"""
_TWICE = 6


class Ways(NamedTuple):
    """The walks of each way, as frames with a column `walk`, and whether any op_id comes `twice`."""

    alone: DataFrame
    together: DataFrame
    summed: DataFrame
    twice: Column


def ways(operations: DataFrame) -> Ways:
    """Of `plain_operations`. Whether any op_id comes twice is asked of 64-bit hashes: two that collide cost time, not
    truth.
    """
    # Brought together first: to count before the shuffle is in vain where all differ.
    hashes = operations.selectExpr("xxhash64(op_id) as hash", f"not {HAS_NO_OP_ID} as named", _BITS).repartition("hash")
    counted = hashes.groupBy("hash").agg(F.expr("count_if(named) as count"), F.expr("bit_or(bits) as bits"))
    # One number for all ways: two bits for the walks of `alone`, then of `together`, then of `summed`. Where an op_id
    # comes twice, those with one need are brought together too.
    moved = f"bit_or(bits) & ~3 | (bit_or(bits) & 3) * 4 | {1 << _TWICE}"
    bits = counted.selectExpr(f"coalesce(if(max(count) > 1, {moved}, bit_or(bits)), 0)").scalar()
    # Not literals: with a walk known beforehand Spark 4.3 plans a nested loop, or loses a column.
    walks = operations.sparkSession.range(0, 2, numPartitions=1).select(F.expr("int(id) as walk"), bits.alias("bits"))
    # Each names the number once, for each time costs Spark a copy of the subquery to plan.
    return Ways(
        alone=walks.where("getbit(bits, walk) = 1"),
        together=walks.where("getbit(bits, 2 + walk) = 1"),
        summed=walks.where("getbit(bits, 4 + walk) = 1"),
        twice=F.getbit(bits, F.lit(_TWICE)) == 1,
    )


def only(rows: DataFrame, walks: DataFrame) -> DataFrame:
    """The rows on those walks. Their own must come from an explode, for the same reason.

    Best asked of needs beside events: once for both.
    """
    return rows.join(F.broadcast(walks), "walk", "left_semi")
