"""Our notation of Kafka's messages, and the field trees it is read into.

A message is a text with one field per line: the versions that have the field, its name, its type, and where needed a
default and a tag. The fields of a group follow it, two spaces deeper:

    4+    topics        [FetchTopic]                an array of groups
    4-12    topic       string                      only in versions 4 to 12
    13+     topic_id    uuid
    4+      partitions  [int32]                     an array of integers
    12+   cluster_id    string? = null    tag 0     may be null, is null by default, travels as tagged field 0
    15+   state         {ReplicaState}    tag 1     a single group
    15+     epoch       int64 = -1
    7+    error         string?9+                   may be null from version 9 on

Types are int8, int16, uint16, int32, int64, float64, bool, string, bytes, records and uuid. A default that is not
written is zero, false, the empty string or array, or null for records. A group that is named a second time without
fields has the fields it had the first time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

PRIMITIVES = frozenset(
    ["int8", "int16", "uint16", "int32", "int64", "float64", "bool", "string", "bytes", "records", "uuid"]
)

_LINE = re.compile(
    r"""
    (?P<versions>\d+(?:-\d+|\+)?)
    \ +(?P<name>[a-z][a-z0-9_]*)
    \ +(?P<open>[\[{])?(?P<base>\w+)[\]}]?
    (?P<nullable>\?(?P<nullable_versions>\d+(?:-\d+|\+)?)?)?
    (?:\ *=\ *(?P<default>"[^"]*"|\S+))?
    (?:\ +tag\ (?P<tag>\d+))?
    """,
    re.VERBOSE,
)

# The version no message reaches: the end of an open range such as "4+".
LAST = 99


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Reads "4", "4-12" or "4+"."""
        if text.endswith("+"):
            return cls(int(text[:-1]), LAST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One line of a message."""

    name: str
    versions: Versions
    # A primitive, or the name of a group.
    base: str
    array: bool
    # The group's fields; None for a primitive.
    group: Group | None
    # The versions in which the field may be null; None if it never may.
    nullable: Versions | None
    default: object
    tag: int | None


@dataclass(slots=True)
class Group:
    """A message or a group of fields in it. Two groups of one message never share a name."""

    name: str
    fields: list[Field] = field(default_factory=list)


def parse(name: str, text: str) -> Group:
    """The field tree of one message."""
    message = Group(name)
    groups: dict[str, Group] = {}
    # The groups that are open, each with the indentation of its fields (None: not seen yet).
    open_groups: list[tuple[Group, int | None]] = [(message, None)]
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise ValueError(f"{name}: cannot read the line {line.strip()!r}")
        indentation = line.index(match["name"], line.index(match["versions"]) + len(match["versions"]))
        if open_groups[-1][1] is None:
            open_groups[-1] = (open_groups[-1][0], indentation)
        while open_groups[-1][1] != indentation:
            open_groups.pop()
            if not open_groups:
                raise ValueError(f"{name}: the line {line.strip()!r} is indented like no line before it")
        parsed = _field(match, groups)
        open_groups[-1][0].fields.append(parsed)
        if parsed.group is not None and not parsed.group.fields:
            open_groups.append((parsed.group, None))
    return message


def _field(match: re.Match[str], groups: dict[str, Group]) -> Field:
    versions = Versions.parse(match["versions"])
    base = match["base"]
    array = match["open"] == "["
    group = None
    if base not in PRIMITIVES:
        group = groups.setdefault(base, Group(base))
    nullable = None
    if match["nullable"]:
        nullable = Versions.parse(match["nullable_versions"]) if match["nullable_versions"] else versions
    return Field(
        name=match["name"],
        versions=versions,
        base=base,
        array=array,
        group=group,
        nullable=nullable,
        default=_default(match["default"], base, array),
        tag=int(match["tag"]) if match["tag"] else None,
    )


def _default(text: str | None, base: str, array: bool) -> object:
    if text == "null":
        return None
    if array:
        return ()
    if text is not None:
        if base == "string":
            return text.strip('"')
        if base == "bool":
            return text == "true"
        return float(text) if base == "float64" else int(text)
    implicit: dict[str, object] = {
        "string": "",
        "bytes": b"",
        "records": None,
        "uuid": bytes(16),
        "bool": False,
        "float64": 0.0,
    }
    return implicit.get(base, 0) if base in PRIMITIVES else ...
