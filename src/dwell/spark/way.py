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

# A bit for each kind of operation on each walk: two for those with one need, two for several, two for volumes.
_BITS = f"""
    case when size(needs) > 1 and volume is not null then {1 << 4 + LEVEL}
         when size(needs) > 1 then if(get(sort_array(needs.level), 0) is null, {1 << 2 + SIGNAL}, 0)
                                   + if(array_max(needs.level) is null, 0, {1 << 2 + LEVEL})
         else if(get(needs, 0).level is null, {1 << SIGNAL}, {1 << LEVEL})
    end as bits
"""
_TWICE = 6


class Ways(NamedTuple):
    """The walks of each way, as frames of one column `walk`, and whether any op_id comes `twice`."""

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
    # One number, so that all ways ask the same subquery.
    found = counted.selectExpr(f"coalesce(bit_or(bits) | if(max(count) > 1, {1 << _TWICE}, 0), 0)")
    walks = operations.sparkSession.range(0, 2, numPartitions=1).selectExpr("int(id) as walk")
    bits = found.scalar()
    walks = walks.withColumn("bits", bits)

    def taken(condition: str) -> DataFrame:
        return walks.where(condition).select("walk")

    return Ways(
        alone=taken(f"getbit(bits, {_TWICE}) = 0 and getbit(bits, walk) = 1"),
        together=taken(f"(getbit(bits, {_TWICE}) = 1 and getbit(bits, walk) = 1) or getbit(bits, 2 + walk) = 1"),
        summed=taken("getbit(bits, 4 + walk) = 1"),
        twice=F.getbit(bits, F.lit(_TWICE)) == 1,
    )


def only(rows: DataFrame, walks: DataFrame) -> DataFrame:
    """The rows on those walks. Theirs must come from an explode too."""
    return rows.join(F.broadcast(walks), "walk", "left_semi")
