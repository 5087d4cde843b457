from __future__ import annotations
from pyspark.sql import functions as F, DataFrame
from dwell.spark.schema import plain_operations, plain_events, extra_names, OUTCOMES
from dwell.spark.wait import waits
from dwell.spark.met import met, SIGNAL, LEVEL
from dwell.spark.outcome import outcomes, ANY, ALL, SOME
from dwell.ledger.reason import MIN_MS, MAX_MS

def settle(operations, events, *, as_of=None, options=None):
    plain = plain_operations(operations)
    w = waits(plain)
    levels = F.col("needs.level")
    k = plain.agg(F.array_compact(F.array(F.when(F.bool_or(F.get(F.sort_array(levels), F.lit(0)).isNull()), SIGNAL), F.when(F.bool_or(F.array_max(levels).isNotNull()), LEVEL)))).scalar()
    count = F.size("needs")
    q = F.coalesce("row.quorum", count)
    rule = F.when((q == 1), ANY).when(q == count, ALL).otherwise(SOME)
    n = w.select("*", rule.alias("rule"), F.posexplode_outer("needs").alias("pos", "need")).select(
        F.col("need.key").alias("key"),
        F.when(F.col("need.level").isNull(), SIGNAL).otherwise(LEVEL).alias("walk"),
        F.coalesce("need.level", "submitted_ms").alias("mark"),
        F.struct("op_id", "tag", "rule", "submitted_ms", F.when(F.col("pos") == 0, F.col("row")).alias("row")).alias("wait"),
    )
    e = plain_events(events).where(F.col("key").isNotNull() & F.col("at_ms").between(MIN_MS, MAX_MS))
    e = e.select("*", F.explode_outer(k).alias("walk")).where((F.col("walk")==SIGNAL)|F.col("level").isNotNull())
    e = e.select("key", "walk", F.when(F.col("walk") == SIGNAL, F.col("at_ms")).otherwise(F.col("level")).alias("mark"), "at_ms")
    out = outcomes(met(n, e), as_of_ms=None)
    return out
