"""The workloads of `dwell sample`, as Spark expressions over `spark.range`.

Chance is a hash of (row, seed, what for), not a random generator: the rows are the same however Spark cuts them into
tasks. Times start at a fixed moment. About one operation in 5,000 is faulty and some events come twice, as in life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# 2026-03-02T00:00:00Z, a Monday.
START_MS = 1_772_409_600_000

FAULTY = 0.0002
ROWS_A_TASK = 500_000

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


class Workload(NamedTuple):
    operations: DataFrame
    events: DataFrame
    about: dict[str, Any]


def workload(spark: SparkSession, kind: str, rows: int, seed: int) -> Workload:
    make = {"orders": _orders, "produce": _produce, "fetch": _fetch, "sessions": _sessions}[kind]
    operations, events = make(_Source(spark, seed), rows)
    return Workload(_with_faults(operations, seed), events, {"kind": kind, "rows": rows, "seed": seed})


class _Source:
    def __init__(self, spark: SparkSession, seed: int) -> None:
        self._spark, self._seed = spark, seed

    def rows(self, count: int) -> DataFrame:
        """`id` from 0 to `count`, in tasks of a fixed size."""
        return self._spark.range(0, count, 1, max(1, -(-count // ROWS_A_TASK)))

    def chance(self, what: str, *of: Column) -> Column:
        """A number from 0 up to 1 that depends on the row (or on `of`), the seed and what it is for, and on no more."""
        return _chance(self._seed, what, *(of or (F.col("id"),)))

    def below(self, what: str, bound: int, *of: Column) -> Column:
        return F.floor(self.chance(what, *of) * bound).cast("bigint")

    def latency_ms(self, what: str, median_ms: float, sigma: float) -> Column:
        """Log-normal, as waiting times are: half of them below the median, a long tail above."""
        # Box and Muller: two even chances make a normal one. 1 - u keeps the logarithm from 0.
        u, v = self.chance(f"{what} u"), self.chance(f"{what} v")
        normal = F.sqrt(-2 * F.log(1 - u)) * F.cos(6.283185307179586 * v)
        return F.greatest(F.lit(1), F.round(median_ms * F.exp(sigma * normal))).cast("bigint")


def _orders(source: _Source, rows: int) -> tuple[DataFrame, DataFrame]:
    """A week of orders, more by day than by night, from 60 shops; some shops' customers are slower to pay."""
    day = source.below("day", 7)
    hour = 12 + 12 * (source.chance("hour a") + source.chance("hour b") - 1)
    shop = source.below("shop", 60)
    slow = F.when(shop % 20 == 7, 6.0).otherwise(1.0)
    orders = source.rows(rows).select(
        F.format_string("order-%09d", "id").alias("op_id"),
        (F.lit(START_MS) + day * DAY_MS + F.floor(hour * HOUR_MS)).alias("ms"),
        F.format_string("shop-%02d", shop).alias("shop"),
        F.round(5 + source.latency_ms("amount", 40, 0.8) / 1.0, 2).alias("amount"),
        (source.latency_ms("payment", 3.5 * MINUTE_MS, 1.05) * slow).cast("bigint").alias("wait_ms"),
        (source.chance("pays") < 0.965).alias("pays"),
        F.when(source.chance("twice") < 0.01, 2).otherwise(1).alias("times"),
    )
    operations = orders.select(
        "op_id",
        _timestamp("ms", "submitted_at"),
        _delay(30 * MINUTE_MS),
        _signal("op_id"),
        *_no_condition(),
        "shop",
        "amount",
    )
    paid = orders.where("pays").select(
        F.col("op_id").alias("key"),
        _timestamp(F.col("ms") + F.col("wait_ms"), "at"),
        _null("bigint").alias("level"),
        F.explode(F.array_repeat(F.lit(1), F.col("times"))).alias("_"),
    )
    return operations, paid.drop("_")


def _produce(source: _Source, rows: int) -> tuple[DataFrame, DataFrame]:
    """Ten writes a millisecond-and-a-half apart to 1 to 3 of 48 partitions; acks=all waits for each high watermark.

    Now and then a replica of one partition stalls for up to a minute, and its high watermark stands still until then.
    """
    partitions, gap_ms, stall_ms = 48, 15, MINUTE_MS
    writes = source.rows(rows).select(
        F.col("id"),
        (F.lit(START_MS) + F.col("id") * gap_ms + source.below("jitter", gap_ms)).alias("ms"),
        (1 + source.below("count", 3)).alias("count"),
        source.below("first", partitions).alias("first"),
        source.latency_ms("replication", 8, 0.7).alias("wait_ms"),
    )
    # Partitions far enough apart that no write names one twice. The offset is the number of the write.
    touched = F.transform(F.sequence(F.lit(0), F.col("count") - 1), lambda i: (F.col("first") + i * 7) % partitions)
    writes = writes.withColumn("partitions", touched)
    needs = F.transform(
        "partitions", lambda p: F.struct(_topic(p).alias("key"), (F.col("id") + 1).cast("bigint").alias("level"))
    )
    operations = writes.select(
        F.format_string("produce-%09d", "id").alias("op_id"),
        _timestamp("ms", "submitted_at"),
        _delay(30_000),
        needs.alias("needs"),
        *_no_condition(),
    )
    each = writes.select("id", "ms", "wait_ms", F.explode("partitions").alias("partition"))
    window = F.floor(F.col("ms") / stall_ms)
    stalls = source.chance("stall", F.col("partition"), window) < 0.02
    # The watermark moves on at the end of the stalled minute.
    at = F.when(stalls, F.greatest((window + 1) * stall_ms, F.col("ms") + F.col("wait_ms"))).otherwise(
        F.col("ms") + F.col("wait_ms")
    )
    events = each.select(
        _topic(F.col("partition")).alias("key"), _timestamp(at, "at"), (F.col("id") + 1).cast("bigint").alias("level")
    )
    return operations, events


def _fetch(source: _Source, rows: int) -> tuple[DataFrame, DataFrame]:
    """Consumers that ask 2 to 4 of 40 partitions for 64 KiB; partitions are written to at very different rates."""
    partitions, gap_ms, append_ms = 40, 10, 50
    polls = source.rows(rows).select(
        F.col("id"),
        (F.lit(START_MS) + 1000 + F.col("id") * gap_ms + source.below("jitter", gap_ms)).alias("ms"),
        (2 + source.below("count", 3)).alias("count"),
        source.below("first", partitions).alias("first"),
    )
    polled = polls.select(
        "id",
        "ms",
        F.transform(F.sequence(F.lit(0), F.col("count") - 1), lambda i: (F.col("first") + i * 3) % partitions).alias(
            "ps"
        ),
    )

    def log_end(partition: Column) -> Column:
        ticks = F.floor((F.col("ms") - START_MS) / append_ms).cast("bigint")
        return F.struct(_topic(partition).alias("key"), (ticks * _append_bytes(partition)).alias("level"))

    operations = polled.select(
        F.format_string("fetch-%09d", "id").alias("op_id"),
        _timestamp("ms", "submitted_at"),
        _delay(500),
        F.transform("ps", log_end).alias("needs"),
        _null("int").alias("quorum"),
        F.lit(65_536).cast("bigint").alias("volume"),
    )
    ticks = (1000 + rows * gap_ms) // append_ms + 20
    appends = source.rows(ticks * partitions).select(
        "id",
        (F.col("id") % partitions).alias("partition"),
        F.floor(F.col("id") / partitions).cast("bigint").alias("tick"),
    )
    events = appends.select(
        _topic(F.col("partition")).alias("key"),
        _timestamp(START_MS + F.col("tick") * append_ms + source.below("append", append_ms), "at"),
        (F.col("tick") * _append_bytes(F.col("partition"))).alias("level"),
    )
    return operations, events


def _append_bytes(partition: Column) -> Column:
    """What a partition gets every 50 ms: from 40 KiB for the first down to 1.5 KiB for the last."""
    return F.floor(40_960 / (1 + partition * partition / 60.0)).cast("bigint")


def _sessions(source: _Source, rows: int) -> tuple[DataFrame, DataFrame]:
    """Members of groups that send a heartbeat every 3 s; each heartbeat opens the wait for the next one.

    Some heartbeats get lost, some members pause for half a minute, and at the end of its life a member just stops.
    """
    beats_a_life, interval_ms = 200, 3000
    member = F.floor(F.col("id") / beats_a_life)
    beat = F.col("id") % beats_a_life
    pause = source.chance("pause", member, F.floor(beat / 10)) < 0.01
    heartbeats = source.rows(rows).select(
        F.format_string("member-%07d", member).alias("member"),
        beat.alias("beat"),
        F.format_string("group-%03d", source.below("group", 120, member)).alias("group"),
        (
            F.lit(START_MS) + source.below("start", DAY_MS, member) + beat * interval_ms + source.below("jitter", 400)
        ).alias("ms"),
        ((source.chance("lost") >= 0.004) & ~pause).alias("sent"),
    )
    sent = heartbeats.where("sent")
    operations = sent.select(
        F.format_string("%s-%03d", "member", "beat").alias("op_id"),
        # A millisecond later: the heartbeat that opens the wait must not be the one that ends it.
        _timestamp(F.col("ms") + 1, "submitted_at"),
        _delay(10_000),
        _signal("member"),
        *_no_condition(),
        "group",
    )
    return operations, sent.select(F.col("member").alias("key"), _timestamp("ms", "at"), _null("bigint").alias("level"))


def _with_faults(operations: DataFrame, seed: int) -> DataFrame:
    chance = _chance(seed, "faulty", F.col("op_id"))
    return operations.withColumn(
        "delay_ms", F.when(chance < FAULTY / 2, -F.col("delay_ms")).otherwise(F.col("delay_ms"))
    ).withColumn("submitted_at", F.when((chance < FAULTY / 2) | (chance >= FAULTY), F.col("submitted_at")))


def _chance(seed: int, what: str, *of: Column) -> Column:
    # 2^53: what a double holds exactly.
    return F.pmod(F.xxhash64(*of, F.lit(seed), F.lit(what)), F.lit(1 << 53)) / float(1 << 53)


def _timestamp(ms: Column | str, name: str) -> Column:
    return F.timestamp_millis(F.col(ms) if isinstance(ms, str) else ms.cast("bigint")).alias(name)


def _delay(ms: int) -> Column:
    return F.lit(ms).cast("bigint").alias("delay_ms")


def _signal(key: str) -> Column:
    return F.array(F.struct(F.col(key).alias("key"), _null("bigint").alias("level"))).alias("needs")


def _no_condition() -> tuple[Column, Column]:
    return _null("int").alias("quorum"), _null("bigint").alias("volume")


def _topic(partition: Column) -> Column:
    return F.format_string("events-%02d", partition)


def _null(kind: str) -> Column:
    return F.lit(None).cast(kind)
