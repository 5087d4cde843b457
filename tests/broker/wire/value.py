"""Hypothesis values for a message, and the same value as an object of kio.

kio has one frozen dataclass per message, version and group, with the fields of Kafka in Kafka's order. It turns some
integers into richer types (times, error codes), which cannot hold every integer: the values drawn here stay within.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from dwell.broker.wire.codec import Schema
from dwell.broker.wire.notation import Field, Group

_INTEGERS = {"int8": 2**7, "int16": 2**15, "int32": 2**31, "int64": 2**63}
_ERROR_CODES = sorted(int(code) for code in ErrorCode)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# Year 9999: the last that Python's datetime knows.
_LAST_MS = 253_402_300_799_000
# The names kio gives to fields whose unit it turned into a type.
_UNITS = ("_ms",)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=5)


def pairs(group: Group, version: int, peer: type[Any]) -> Iterator[tuple[Field, Any]]:
    """Our fields of a version beside kio's, which must have the same names in the same order."""
    ours = [item for item in group.fields if version in item.versions]
    theirs = list(fields(peer))
    assert [_plain(item.name) for item in ours] == [_plain(item.name) for item in theirs], peer
    return zip(ours, theirs, strict=True)


def _plain(name: str) -> str:
    for unit in _UNITS:
        name = name.removesuffix(unit)
    return name


def nested(peer: type[Any], name: str) -> type[Any]:
    """The dataclass of a kio field that is a group or a tuple of groups."""
    return next(each for each in _flatten(get_type_hints(peer)[name]) if isinstance(each, type) and is_dataclass(each))


def _flatten(hint: Any) -> Iterator[Any]:
    yield hint
    for each in get_args(hint):
        yield from _flatten(each)


def messages(schema: Schema, version: int, peer: type[Any]) -> st.SearchStrategy[Any]:
    """Messages of a version; fields the version lacks are left at their defaults."""
    return _group(schema, schema.group, version, peer)


def _group(schema: Schema, group: Group, version: int, peer: type[Any]) -> st.SearchStrategy[Any]:
    values = {}
    for item, theirs in pairs(group, version, peer):
        values[item.name] = _value(schema, item, version, peer, theirs)
    return st.builds(schema.types[group.name], **values)


def _value(schema: Schema, item: Field, version: int, peer: type[Any], theirs: Any) -> st.SearchStrategy[Any]:
    single: st.SearchStrategy[Any]
    if item.group is not None:
        single = _group(schema, item.group, version, nested(peer, theirs.name))
    else:
        single = _primitive(item, theirs.metadata.get("kafka_type", item.base))
    if item.array:
        single = st.lists(single, max_size=3)
    if item.nullable is not None and version in item.nullable:
        single = st.none() | single
    if item.tag is not None and item.group is not None and not item.array:
        single = st.none() | single
    return single


def _primitive(item: Field, kind: str) -> st.SearchStrategy[Any]:
    if kind == "error_code":
        return st.sampled_from(_ERROR_CODES)
    if kind == "datetime_i64":
        return st.integers(0, _LAST_MS // 1000).map(lambda seconds: seconds * 1000)
    if kind.startswith("timedelta"):
        return st.integers(-(2**21), 2**21).map(lambda seconds: seconds * 1000)
    if item.base in _INTEGERS:
        bound = _INTEGERS[item.base]
        return st.integers(-bound, bound - 1)
    strategies: dict[str, st.SearchStrategy[Any]] = {
        "uint16": st.integers(0, 2**16 - 1),
        "float64": st.floats(allow_nan=False, allow_infinity=False),
        "bool": st.booleans(),
        "string": _TEXT | st.text("x", min_size=126, max_size=130),
        "bytes": st.binary(max_size=5),
        "records": st.binary(max_size=5) | st.binary(min_size=127, max_size=130),
        "uuid": st.binary(min_size=16, max_size=16),
    }
    return strategies[item.base]


def to_kio(message: Any, group: Group, version: int, peer: type[Any]) -> Any:
    """The same message as an object of kio."""
    values = {}
    for item, theirs in pairs(group, version, peer):
        value = getattr(message, item.name)
        if item.group is not None:
            inner = nested(peer, theirs.name)
            if item.array:
                made: Any = value
                if value is not None:
                    made = tuple(to_kio(each, item.group, version, inner) for each in value)
            elif value is None and item.tag is not None:
                made = theirs.default if theirs.default is not MISSING else inner()
            else:
                made = None if value is None else to_kio(value, item.group, version, inner)
        elif item.array:
            made = None if value is None else tuple(_kio_primitive(each, item, theirs) for each in value)
        else:
            made = _kio_primitive(value, item, theirs)
        values[theirs.name] = made
    return peer(**values)


def _kio_primitive(value: Any, item: Field, theirs: Any) -> Any:
    kind = theirs.metadata.get("kafka_type", item.base)
    if value is None:
        return None
    if kind == "error_code":
        return ErrorCode(value)
    if kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kind == "datetime_i64":
        return _EPOCH + datetime.timedelta(milliseconds=value)
    if kind == "uuid":
        return uuid.UUID(bytes=value) if value != bytes(16) else None
    return value
