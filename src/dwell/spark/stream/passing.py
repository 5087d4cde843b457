"""The columns that pass through to the outcome, as a checkpoint knows them.

Operations wait in the state with their other columns, in the types these had when they came. A column may move, come
and go from one start of the query to the next; but its values must stay readable, so its type may change only to one
that holds all values of the old one. Each shard has the types on record and checks them before it writes anything.
Types are those of Spark (`bigint`, `array<string>`), which do not depend on the session's time zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from dwell.errors import InvalidType

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

# Each type holds all values of those before it.
_WIDER = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))


def field_names(columns: Sequence[str]) -> list[str]:
    """A name for each column, by which it is known in the state.

    None is taken for another one, also where the session does not look at case.
    """
    return [f"{name.encode().hex()}_{columns[:nth].count(name)}" for nth, name in enumerate(columns)]


def nullable(schema: T.StructType) -> T.StructType:
    """The same with null allowed everywhere: what waits has null in a column that comes later."""
    return T.StructType.fromJson(_nullable(schema.jsonValue()))


def _nullable(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_nullable(one) for one in kind]
    if not isinstance(kind, dict):
        return kind
    allowed = {name: True for name in ("nullable", "containsNull", "valueContainsNull") if name in kind}
    return {name: one if name == "metadata" else _nullable(one) for name, one in kind.items()} | allowed


def column_types(known: dict[str, str], schema: pa.Schema) -> dict[str, str]:
    """The types to put on record, by field name: those of `schema`, and those of columns that have gone.

    Raises InvalidType if a column cannot have the type it has now.
    """
    fields = schema.field("extra").type if "extra" in schema.names else ()
    types = {field.name: from_arrow_type(field.type).simpleString() for field in fields}
    for name, kind in types.items():
        if name in known and not _holds(kind, known[name]):
            column = bytes.fromhex(name.rpartition("_")[0]).decode()
            raise InvalidType(
                f"operations has a column {column!r} of type {kind}, but in the checkpoint it is of type "
                f"{known[name]}: nothing was changed, the old type goes on from here. For the new type, rename the "
                "column or start with a new checkpoint"
            )
    return known | types


def _holds(kind: str, old: str) -> bool:
    """Whether a column of this type holds all values of the old one."""
    if old in (kind, "void"):
        return True
    return any(old in chain and kind in chain[chain.index(old) :] for chain in _WIDER)
