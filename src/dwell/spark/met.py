"""When is each need met? One shuffle by key, one sort, one running minimum.

Levels never fall, so the first time a key is at level L or above is the smallest time among all its events of level L
or above. Sort a key's events and needs together by level, greatest first, and that is a running minimum:

    level    9        7      5         4      2
    event    at 60           at 40            at 10
    need              7?               4?
    minimum  60       60     40        40     10         7 is met at 60, 4 is met at 40

A signal asks for the first event at or after a moment. That is the same walk with the time in place of the level. So
each row goes to one of two walks of its key, and an event with a level may go to both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIGNAL, LEVEL = 0, 1

# Of `need`, on which walk it is.
WALK = f"if(need.level is null, {SIGNAL}, {LEVEL})"

# Of `need`, from where on it is met. A volume over one key is a level; beyond 64 bits (null) it is never reached.
MARK = """
    case when need.level is null then submitted_ms
         when volume is not null then try_add(need.level, volume)
         else need.level
    end
"""

# Sorting compares eight bytes before all else: a hash, with the walk in it, tells "customer-17…" apart. An event at the
# need's own mark meets it, so events come first; needs have no time here.
_FIRST = """
    min(at_ms) over (
        partition by xxhash64(key) & -2 | walk, key
        order by mark desc, at_ms asc nulls last
        rows between unbounded preceding and current row
    )
"""


def walking(events: DataFrame) -> DataFrame:
    """`key, walk, mark, at_ms`: each event once for each walk it can matter to."""
    walks = f"explode(if(level is null, array({SIGNAL}), array({SIGNAL}, {LEVEL}))) as walk"
    return events.selectExpr("*", walks).selectExpr(
        "key", "walk", f"if(walk = {SIGNAL}, at_ms, level) as mark", "at_ms"
    )


def beside(needs: DataFrame, events: DataFrame) -> DataFrame:
    """Both in one frame, what the others have not being null."""
    return needs.unionByName(events, allowMissingColumns=True)


def met(rows: DataFrame) -> DataFrame:
    """When each need is first met, as `met_ms`, or null; all that came with it is there still.

    `rows` are needs beside events. Needs are `key, walk, mark` and whatever else is to be kept, the mark being the
    least level (walk LEVEL) or the least time (walk SIGNAL) that meets it; a null mark is never met. Events are `key,
    walk, mark, at_ms`.
    """
    # By key alone: or Spark would make the hash before the shuffle, which would not compress it.
    by_key = rows.repartition("key")
    return by_key.selectExpr("*", f"if(mark is not null, {_FIRST}, null) as met_ms").where("at_ms is null")
