"""When has enough come in, over several keys together?

The levels of an operation's keys rise step by step, and so does the sum of what they are above the needs. The steps of
each key are numbered; the steps that matter to an operation are then a range of numbers for each of its keys:

    submitted            end
        |                 |
    --1-|---2------3------|---4---  key a: steps 1 to 3, step 1 being where a stood at submission
    ----|-------1-----2---|------3  key b: steps 0 to 2, step 0 being "no event yet"

The end is the deadline or, if earlier, the moment that key alone is far enough. Each operation meets exactly the steps
in its ranges, by equality of key and number, and a running sum in the order of time finds the moment.

The cost is the number of those (operation, key, step) triples: an operation pays for the steps its keys take between
its submission and its end, and for nothing before or after. A key with many steps is spread, since the number of the
step is part of where a row goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BY_KEY = "partition by hash, key order by"
_BY_TIME = "partition by op_id, tag order by at_ms, key, step"
_SO_FAR = "between unbounded preceding and current row"
_WHOLE = "rows between unbounded preceding and unbounded following"


def volume_met(rows: DataFrame) -> DataFrame:
    """One row an operation in the form of `met`: when the sum reached the volume, and which key brought it there.

    `rows` are needs beside events. Needs are `key` and `need`: `level, deadline_ms, volume` and `wait`, whose fields
    are kept. Events are `key, mark, at_ms`, the mark being the level.
    """
    return _reached(_steps(_numbered(rows)))


def _numbered(rows: DataFrame) -> DataFrame:
    """Needs with their range of steps, `from_step` to `to_step`, and the events that are steps; a shuffle by key."""
    hashed = rows.selectExpr(
        "xxhash64(key) as hash",
        "key",
        "need",
        "mark as level",
        "if(need is null, at_ms, need.wait.submitted_ms) as at_ms",
        "if(need is null, mark, try_add(need.level, need.volume)) as alone",
    )

    # In the order of time, the greatest of an instant first: a step is an event above all before it.
    earlier = f"max(level) over ({_BY_KEY} at_ms, level desc rows between unbounded preceding and 1 preceding)"
    stepped = hashed.selectExpr("*", f"{earlier} as before").where(
        "need is not null or before is null or level > before"
    )
    counted = f"count(level) over ({_BY_KEY} at_ms range {_SO_FAR}) as from_step"

    # In the order of levels, the greatest first: when is this key alone far enough?
    first = f"min(if(need is null, at_ms, null)) over ({_BY_KEY} alone desc range {_SO_FAR})"
    enough = f"if(need is not null and alone is not null, {first}, null) as enough"
    until = "if(need is null, at_ms, least(need.deadline_ms, if(enough is null, null, greatest(at_ms, enough))))"
    # One after the other: the first is in the order the rows have already, the others are a sort each.
    return (
        stepped.selectExpr("*", counted)
        .selectExpr("*", enough)
        .selectExpr("*", f"count(level) over ({_BY_KEY} {until} range {_SO_FAR}) as to_step")
    )


def _steps(rows: DataFrame) -> DataFrame:
    """A row for each step from `from_step` to `to_step` with what it adds; the first stands for all before it."""
    numbers = "if(need is null, array(from_step), sequence(from_step, greatest(from_step, to_step)))"
    # Said aloud, for the rows lie by key already, and a key with many steps would stay with one task.
    each = rows.selectExpr("*", f"posexplode_outer({numbers}) as (nth, step)").repartition("hash", "key", "step")
    taken = "max(if(need is null, struct(at_ms, level, before), null)) over (partition by hash, key, step) as taken"
    more = f"{_above('taken.level')} - if(nth > 0, {_above('taken.before')}, 0)"
    return (
        each.selectExpr("key", "step", "nth", "need", taken)
        .where("need is not null")
        .selectExpr(
            "key",
            "step",
            "need.volume",
            "need.wait.op_id",
            "need.wait.tag",
            "if(nth = 0, need.wait, null) as wait",
            "taken.at_ms as rose_ms",
            "greatest(taken.at_ms, need.wait.submitted_ms) as at_ms",
            "taken.level > need.level as counts",
            f"cast({more} as decimal(38,0)) as more",
        )
    )


def _reached(rows: DataFrame) -> DataFrame:
    # The steps of an operation that comes twice stand side by side, and count once.
    again = f"struct(key, step) <=> struct(lag(key) over ({_BY_TIME}), lag(step) over ({_BY_TIME}))"
    latest = "if(counts and at_ms <= met_ms, struct(-rose_ms as ms, key), null)"
    return (
        rows.selectExpr("* except (more)", f"cast(if({again}, 0, more) as decimal(38,0)) as more")
        .selectExpr("*", f"sum(more) over ({_BY_TIME} rows {_SO_FAR}) as sum")
        .selectExpr("*", f"min(if(sum >= volume, at_ms, null)) over ({_BY_TIME} {_WHOLE}) as met_ms")
        .selectExpr("met_ms", "wait", f"min({latest}) over ({_BY_TIME} {_WHOLE}) as latest")
        .where("wait is not null")
        .selectExpr("latest.key", "met_ms", "wait.*")
    )


def _above(level: str) -> str:
    """How far a level is above the need's; exact, since the difference of two bigints may need 65 bits."""
    return f"greatest(coalesce(cast({level} as decimal(20,0)) - cast(need.level as decimal(20,0)), 0), 0)"
