"""Makes the functions that read and write one message in one version.

A `Schema` is one message in all its versions. The first time a version is used, a straight-line Python function is
written for it as source text and compiled: no table is walked while a request is read. For three fields of a request
in version 12 the source reads

    v1, v2 = unpack_from(buffer, position); position += 8           fields of fixed size, read in one go
    n = buffer[position]; position += 1                             a compact length, one more than the bytes
    if n > 127: n, position = read_uvarint(buffer, position, n)
    n -= 1
    if not 0 <= n <= end - position: fail("topic", n, end - position)
    v3 = buffer[position:position + n].decode(); position += n

Every length is compared with the bytes that are left before anything is allocated: for an array, with the bytes its
smallest elements would need. Malformed bytes raise `ProtocolError` and nothing else.

One class per message and one per group in it serve all versions, so that a handler is written once. A field that a
version lacks holds its default when read and is left out when written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NoReturn

from dwell.broker.wire.error import ProtocolError
from dwell.broker.wire.notation import Field, Group, Versions, parse

Buffer = bytes | bytearray | memoryview
Decoder = Callable[[bytes | bytearray, int], Any]
Encoder = Callable[[Any, Callable[[Any], None]], None]

# struct's letter and the size of every type of fixed size.
_FIXED = {
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "bool": ("?", 1),
    "uuid": ("16s", 16),
}
# A null group and a group that is there, as a byte before it.
_NULL_GROUP, _GROUP = -1, 1


class Message:
    """Base of every message and group: fields as slots, positional or by name, equal if all fields are."""

    __slots__ = ()
    fields: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.fields)})"


class Schema:
    """One message: its class and, per version, the functions that read and write it."""

    def __init__(self, name: str, versions: str, flexible: int | None, text: str) -> None:
        self.name = name
        self.versions = Versions.parse(versions)
        # The first version with compact lengths and tagged fields; None if no version has them.
        self.flexible = flexible
        self._text = text
        self._decoders: dict[int, Decoder] = {}
        self._encoders: dict[int, Encoder] = {}

    @cached_property
    def group(self) -> Group:
        return parse(self.name, self._text)

    @cached_property
    def types(self) -> dict[str, type[Any]]:
        """The classes of the groups, by name; the message itself under its own name."""
        types: dict[str, type[Any]] = {}
        _make_type(self.group, types)
        return types

    @cached_property
    def type(self) -> type[Any]:
        """The message's class. The classes of its groups are attributes of it: `Response.PartitionData`."""
        message = self.types[self.name]
        for name, group in self.types.items():
            if name != self.name:
                setattr(message, name, group)
        return message

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version >= self.flexible

    def decoder(self, version: int) -> Decoder:
        """The function `(buffer, position) -> message` for one version. Records are views into the buffer."""
        found = self._decoders.get(version)
        if found is None:
            found = self._decoders[version] = _DecoderSource(self, self._served(version)).compile()
        return found

    def encoder(self, version: int) -> Encoder:
        """The function `(message, append) -> None` for one version; `append` takes the pieces in order."""
        found = self._encoders.get(version)
        if found is None:
            found = self._encoders[version] = _EncoderSource(self, self._served(version)).compile()
        return found

    def decode(self, version: int, buffer: Buffer, position: int = 0) -> Any:
        """Reads a message. Bytes after its end are ignored, as Kafka does."""
        return self.decoder(version)(bytes(buffer) if isinstance(buffer, memoryview) else buffer, position)

    def encode(self, version: int, message: object) -> bytes:
        pieces: list[bytes] = []
        self.encoder(version)(message, pieces.append)
        return b"".join(pieces)

    def _served(self, version: int) -> int:
        if version not in self.versions:
            raise ProtocolError(f"{self.name} has the versions {self.versions}, not {version}")
        return version


def write_uvarint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, the lowest first."""
    if value < 128:
        return _SMALL[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [bytes([value]) for value in range(128)]


def _read_uvarint(buffer: bytes | bytearray, position: int, value: int) -> tuple[int, int]:
    """The rest of an unsigned varint of at most 32 bits whose first byte was `value`, and the position after it."""
    value &= 127
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise ProtocolError("a varint is longer than 32 bits")


def skip_tags(buffer: bytes | bytearray, position: int, end: int) -> int:
    """The position after tagged fields none of which is known. `position` is that of their count."""
    count = buffer[position]
    position += 1
    if count > 127:
        count, position = _read_uvarint(buffer, position, count)
    if count * 2 > end - position:
        _fail("tagged fields", count, end - position)
    for _ in range(count):
        tag = buffer[position]
        position += 1
        if tag > 127:
            tag, position = _read_uvarint(buffer, position, tag)
        size = buffer[position]
        position += 1
        if size > 127:
            size, position = _read_uvarint(buffer, position, size)
        if size > end - position:
            _fail(f"tagged field {tag}", size, end - position)
        position += size
    return position


def _fail(name: str, length: int, left: int) -> NoReturn:
    raise ProtocolError(f"{name}: length {length} with {left} bytes left")


def _make_type(group: Group, types: dict[str, type[Any]]) -> None:
    if group.name in types:
        return
    namespace: dict[str, Any] = {"types": types}
    parameters, body = [], []
    for item in group.fields:
        name = item.name
        if item.group is not None:
            _make_type(item.group, types)
        default, value = repr(item.default), name
        if item.array and item.default is not None:
            value = f"[] if {name} is EMPTY else {name}"
        elif item.group is not None and not item.array:
            # An absent tagged group is None: most answers have none, and a group per partition costs.
            default = "None" if item.tag is not None or item.default is None else "..."
            if default == "...":
                value = f"types[{item.base!r}]() if {name} is ... else {name}"
        parameters.append(f"{name}={default}")
        body.append(f"    self.{name} = {value}\n")
    source = f"def __init__(self, {', '.join(parameters)}):\n{''.join(body) or '    pass'}"
    namespace["EMPTY"] = ()
    exec(source, namespace)
    fields = tuple(item.name for item in group.fields)
    attributes = {"__slots__": fields, "fields": fields, "__init__": namespace["__init__"], "__module__": __name__}
    types[group.name] = type(group.name, (Message,), attributes)


class _Source:
    """Source text that grows line by line, with the objects it refers to."""

    def __init__(self, schema: Schema, version: int) -> None:
        self.schema = schema
        self.version = version
        self.flexible = schema.is_flexible(version)
        self.lines: list[str] = []
        self.depth = 1
        self.namespace: dict[str, Any] = {"ProtocolError": ProtocolError}
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def variable(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.variable(prefix)
        self.namespace[name] = value
        return name

    def present(self, group: Group) -> list[Field]:
        return [item for item in group.fields if item.tag is None and self.version in item.versions]

    def tagged(self, group: Group) -> list[Field]:
        """The tagged fields of this version, by rising tag."""
        found = [item for item in group.fields if item.tag is not None and self.version in item.versions]
        return sorted(found, key=lambda item: item.tag or 0)

    def is_nullable(self, item: Field) -> bool:
        return item.nullable is not None and self.version in item.nullable

    def run(self, signature: str, kind: str) -> Callable[..., Any]:
        filename = f"<{self.schema.name} v{self.version} {kind}>"
        exec(compile("\n".join([signature, *self.lines]), filename, "exec"), self.namespace)
        made: Callable[..., Any] = self.namespace[kind]
        return made

    def least(self, item: Field) -> int:
        """The fewest bytes an element of the array, or the field itself, can take."""
        if item.group is not None:
            return sum(self._least_field(each) for each in self.present(item.group)) + self.flexible
        if item.base in _FIXED:
            return _FIXED[item.base][1]
        return 1 if self.flexible else 2 if item.base == "string" else 4

    def _least_field(self, item: Field) -> int:
        if item.array:
            return 1 if self.flexible else 4
        if item.group is not None and self.is_nullable(item):
            return 1
        return self.least(item)


class _DecoderSource(_Source):
    def compile(self) -> Decoder:
        self.namespace.update(
            fail=_fail,
            read_uvarint=_read_uvarint,
            skip_tags=skip_tags,
            unpack_many=struct.unpack_from,
            StructError=struct.error,
            new=object.__new__,
        )
        self.line("end = len(buffer)")
        if _has_records(self.schema.group):
            self.line("view = memoryview(buffer)")
        self.line("try:")
        self.depth += 1
        result = self.group(self.schema.group)
        self.line(f"return {result}")
        self.depth -= 1
        self.line("except (IndexError, StructError, UnicodeDecodeError) as error:")
        self.line(f'    raise ProtocolError(f"{self.schema.name} v{self.version}: {{error}}") from None')
        return self.run("def decode(buffer, position):", "decode")

    def group(self, group: Group) -> str:
        """Reads a group and returns the variable that holds it."""
        values: dict[str, str] = {}
        # Fields of fixed size wait here to be read by one call.
        letters: list[str] = []
        names: list[str] = []

        def flush() -> None:
            if not letters:
                return
            shape = struct.Struct(">" + "".join(letters))
            unpack = self.constant("unpack", shape.unpack_from)
            self.line(f"{', '.join(names)}, = {unpack}(buffer, position); position += {shape.size}")
            letters.clear()
            names.clear()

        def fixed(letter: str, prefix: str) -> str:
            names.append(self.variable(prefix))
            letters.append(letter)
            return names[-1]

        for item in self.present(group):
            if not item.array and item.base in _FIXED:
                values[item.name] = fixed(_FIXED[item.base][0], "v")
            elif not item.array and item.group is not None:
                if self.is_nullable(item):
                    flag = fixed("b", "n")
                    flush()
                    values[item.name] = self.optional_group(item, flag)
                else:
                    flush()
                    values[item.name] = self.group(item.group)
            elif self.flexible:
                flush()
                length = self.uvarint()
                self.line(f"{length} -= 1")
                values[item.name] = self.sized(item, length)
            else:
                length = fixed("h" if item.base == "string" and not item.array else "i", "n")
                flush()
                values[item.name] = self.sized(item, length)
        tagged = self.tagged(group) if self.flexible else []
        if self.flexible and not tagged and letters:
            count = fixed("B", "n")
            flush()
            self.line(f"if {count}: position = skip_tags(buffer, position - 1, end)")
        elif self.flexible and not tagged:
            self.line("if buffer[position]: position = skip_tags(buffer, position, end)")
            self.line("else: position += 1")
        else:
            flush()
        if tagged:
            values.update(self.tags(tagged))
        made = self.constant("Group", self.schema.types[group.name])
        target = self.variable("g")
        # What the class's own __init__ does, without calling it.
        self.line(f"{target} = new({made})")
        for item in group.fields:
            value = values.get(item.name) or _absent(item)
            if value == "...":
                value = f"{self.constant('Group', self.schema.types[item.base])}()"
            self.line(f"{target}.{item.name} = {value}")
        return target

    def uvarint(self) -> str:
        name = self.variable("n")
        self.line(f"{name} = buffer[position]; position += 1")
        self.line(f"if {name} > 127: {name}, position = read_uvarint(buffer, position, {name})")
        return name

    def optional_group(self, item: Field, flag: str) -> str:
        target = self.variable("v")
        assert item.group is not None
        self.line(f"if {flag} < 0:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.depth += 1
        self.line(f"{target} = {self.group(item.group)}")
        self.depth -= 1
        return target

    def sized(self, item: Field, length: str) -> str:
        """Reads what follows a length: a string, bytes, records or an array."""
        target = self.variable("v")
        if self.is_nullable(item):
            self.line(f"if {length} < 0:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.depth += 1
            self.content(item, length, target)
            self.depth -= 1
        else:
            self.content(item, length, target)
        return target

    def content(self, item: Field, length: str, target: str) -> None:
        least = self.least(item) if item.array else 1
        times = "" if least == 1 else f" // {least}"
        self.line(f"if not 0 <= {length} <= (end - position){times}: fail({item.name!r}, {length}, end - position)")
        if item.array:
            self.elements(item, length, target)
            return
        piece = f"[position : position + {length}]"
        value = {"string": f"buffer{piece}.decode()", "bytes": f"bytes(buffer{piece})", "records": f"view{piece}"}[
            item.base
        ]
        self.line(f"{target} = {value}; position += {length}")

    def elements(self, item: Field, length: str, target: str) -> None:
        if item.base == "uuid":
            self.line(
                f"{target} = [bytes(buffer[at : at + 16]) for at in range(position, position + {length} * 16, 16)]"
            )
            self.line(f"position += {length} * 16")
            return
        if item.base in _FIXED:
            letter, size = _FIXED[item.base]
            self.line(f'{target} = list(unpack_many(f">{{{length}}}{letter}", buffer, position))')
            self.line(f"position += {length} * {size}")
            return
        self.line(f"{target} = []")
        self.line(f"for _ in range({length}):")
        self.depth += 1
        if item.group is not None:
            value = self.group(item.group)
        elif self.flexible:
            size_name = self.uvarint()
            self.line(f"{size_name} -= 1")
            value = self.element(item, size_name)
        else:
            size_name = self.variable("n")
            shape = struct.Struct(">h" if item.base == "string" else ">i")
            unpack = self.constant("unpack", shape.unpack_from)
            self.line(f"{size_name}, = {unpack}(buffer, position); position += {shape.size}")
            value = self.element(item, size_name)
        self.line(f"{target}.append({value})")
        self.depth -= 1

    def element(self, item: Field, length: str) -> str:
        target = self.variable("v")
        self.line(f"if not 0 <= {length} <= end - position: fail({item.name!r}, {length}, end - position)")
        piece = f"buffer[position : position + {length}]"
        self.line(f"{target} = {f'{piece}.decode()' if item.base == 'string' else f'bytes({piece})'}")
        self.line(f"position += {length}")
        return target

    def tags(self, tagged: list[Field]) -> dict[str, str]:
        """Reads the tagged fields of a group that knows some, and skips the others."""
        values = {}
        for item in tagged:
            values[item.name] = self.variable("v")
            self.line(f"{values[item.name]} = {_absent(item)}")
        self.line("if not buffer[position]:")
        self.line("    position += 1")
        self.line("else:")
        self.depth += 1
        count = self.uvarint()
        self.line(f'if {count} * 2 > end - position: fail("tagged fields", {count}, end - position)')
        self.line(f"for _ in range({count}):")
        self.depth += 1
        tag, size, stop = self.uvarint(), self.uvarint(), self.variable("stop")
        self.line(f'if {size} > end - position: fail("tagged field", {size}, end - position)')
        self.line(f"{stop} = position + {size}")
        for index, item in enumerate(tagged):
            self.line(f"{'el' if index else ''}if {tag} == {item.tag}:")
            self.depth += 1
            self.line(f"{values[item.name]} = {self.tag_value(item)}")
            self.line(f'if position != {stop}: raise ProtocolError("{item.name}: not as long as its tag says")')
            self.depth -= 1
        self.line("else:")
        self.line(f"    position = {stop}")
        self.depth -= 2
        return values

    def tag_value(self, item: Field) -> str:
        if item.group is not None and not item.array:
            return self.group(item.group)
        if item.array or item.base not in _FIXED:
            length = self.uvarint()
            self.line(f"{length} -= 1")
            return self.sized(item, length)
        shape = struct.Struct(">" + _FIXED[item.base][0])
        target = self.variable("v")
        self.line(f"{target}, = {self.constant('unpack', shape.unpack_from)}(buffer, position)")
        self.line(f"position += {shape.size}")
        return target


def _has_records(group: Group) -> bool:
    return any(item.base == "records" or (item.group is not None and _has_records(item.group)) for item in group.fields)


def _absent(item: Field) -> str:
    """The source of a field's value where the version or the sender left it out."""
    if item.group is not None and not item.array:
        return "None" if item.tag is not None or item.default is None else "..."
    return "[]" if item.default == () else repr(item.default)


class _EncoderSource(_Source):
    def compile(self) -> Encoder:
        self.namespace.update(uvarint=write_uvarint, SMALL=_SMALL, many=struct.pack)
        self.group(self.schema.group, "message", "append")
        self.line("return None")
        return self.run("def encode(message, append):", "encode")

    def group(self, group: Group, source: str, append: str) -> None:
        letters: list[str] = []
        values: list[str] = []

        def flush() -> None:
            if letters and not values:
                self.line(f"{append}({bytes(len(letters))!r})")
                letters.clear()
            elif letters:
                pack = self.constant("pack", struct.Struct(">" + "".join(letters)).pack)
                self.line(f"{append}({pack}({', '.join(values)}))")
                letters.clear()
                values.clear()

        for item in self.present(group):
            value = f"{source}.{item.name}"
            if not item.array and item.base in _FIXED:
                letters.append(_FIXED[item.base][0])
                values.append(value)
                continue
            local = self.variable("v")
            if not item.array and item.group is not None:
                flush()
                self.line(f"{local} = {value}")
                if self.is_nullable(item):
                    self.line(f"if {local} is None: {append}({struct.pack('b', _NULL_GROUP)!r})")
                    self.line("else:")
                    self.depth += 1
                    self.line(f"{append}({struct.pack('b', _GROUP)!r})")
                    self.group(item.group, local, append)
                    self.depth -= 1
                else:
                    self.group(item.group, local, append)
                continue
            flush()
            self.line(f"{local} = {value}")
            self.sized(item, local, append)
        tagged = self.tagged(group) if self.flexible else []
        if self.flexible and not tagged:
            letters.append("x")  # a zero byte: no tagged fields
        flush()
        if tagged:
            self.tags(tagged, source, append)

    def sized(self, item: Field, local: str, append: str) -> None:
        """Writes a length and what it counts."""
        if self.is_nullable(item):
            short = item.base == "string" and not item.array
            null = b"\0" if self.flexible else b"\xff\xff" if short else b"\xff\xff\xff\xff"
            self.line(f"if {local} is None: {append}({null!r})")
            self.line("else:")
            self.depth += 1
            self.content(item, local, append)
            self.depth -= 1
        else:
            self.content(item, local, append)

    def length(self, expression: str, letter: str, append: str) -> None:
        if self.flexible:
            name = self.variable("n")
            self.line(f"{name} = {expression} + 1")
            self.line(f"{append}(SMALL[{name}] if {name} < 128 else uvarint({name}))")
        else:
            pack = self.constant("pack", struct.Struct(">" + letter).pack)
            self.line(f"{append}({pack}({expression}))")

    def content(self, item: Field, local: str, append: str) -> None:
        if item.array:
            self.length(f"len({local})", "i", append)
            self.elements(item, local, append)
        elif item.base == "records":
            self.records(local, append)
        else:
            if item.base == "string":
                self.line(f"{local} = {local}.encode()")
            self.length(f"len({local})", "h" if item.base == "string" else "i", append)
            self.line(f"{append}({local})")

    def records(self, local: str, append: str) -> None:
        """Records are one buffer, or a list of buffers that are written one after the other."""
        size = self.variable("n")
        self.line(f"if type({local}) is list:")
        self.line(f"    {size} = sum(map(len, {local}))")
        self.line("else:")
        self.line(f"    {size} = len({local}); {local} = ({local},)")
        self.length(size, "i", append)
        self.line(f"for piece in {local}: {append}(piece)")

    def elements(self, item: Field, local: str, append: str) -> None:
        if item.base == "uuid":
            self.line(f'{append}(b"".join({local}))')
            return
        if item.base in _FIXED:
            self.line(f'{append}(many(f">{{len({local})}}{_FIXED[item.base][0]}", *{local}))')
            return
        each = self.variable("e")
        self.line(f"for {each} in {local}:")
        self.depth += 1
        if item.group is not None:
            mark = len(self.lines)
            self.group(item.group, each, append)
            if len(self.lines) == mark:
                self.line("pass")
        else:
            if item.base == "string":
                self.line(f"{each} = {each}.encode()")
            self.length(f"len({each})", "h" if item.base == "string" else "i", append)
            self.line(f"{append}({each})")
        self.depth -= 1

    def tags(self, tagged: list[Field], source: str, append: str) -> None:
        """Writes the tagged fields that differ from their default."""
        out = self.variable("tags")
        self.line(f"{out} = []")
        for item in tagged:
            local, pieces, add = self.variable("v"), self.variable("p"), self.variable("a")
            self.line(f"{local} = {source}.{item.name}")
            self.line(f"if {self.differs(item, local)}:")
            self.depth += 1
            self.line(f"{pieces} = []; {add} = {pieces}.append")
            if item.group is not None and not item.array:
                self.group(item.group, local, add)
            elif item.array or item.base not in _FIXED:
                self.sized(item, local, add)
            else:
                pack = self.constant("pack", struct.Struct(">" + _FIXED[item.base][0]).pack)
                self.line(f"{add}({pack}({local}))")
            self.line(f'{pieces} = b"".join({pieces})')
            self.line(f"{out}.append({write_uvarint(item.tag or 0)!r} + uvarint(len({pieces})) + {pieces})")
            self.depth -= 1
        self.line(f"if {out}: {append}(uvarint(len({out}))); {append}(b''.join({out}))")
        self.line(f"else: {append}(b'\\0')")

    def differs(self, item: Field, local: str) -> str:
        if item.array:
            return f"{local} is not None" if item.default is None else f"{local} is None or len({local})"
        if item.group is not None:
            plain = self.constant("default", self.schema.types[item.base]())
            return f"{local} is not None and {local} != {plain}"
        return f"{local} is not None" if item.default is None else f"{local} != {item.default!r}"
