"""The compressions of a batch, by the number in its attributes: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.

A broker passes compressed batches through. It looks into them only where a user or a time look-up asks for single
records. gzip is in the standard library, the others come with `cramjam`.

Java's snappy is not a plain snappy block but the framing of its library xerial: a magic of eight bytes, two versions
of four bytes, then blocks, each with its length in four bytes. Other clients send either form; both are read.
"""

from __future__ import annotations

import importlib
import struct
import zlib
from typing import Any

from dwell.broker.record.batch import RecordError
from dwell.broker.wire.error import Error
from dwell.errors import MissingExtra

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# What a batch may grow to: far above max.message.bytes, far below what a crafted batch could ask for.
MAX_BYTES = 256 * 1024 * 1024

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(">8sii")
_XERIAL_BLOCK_BYTES = 32 * 1024
_LENGTH = struct.Struct(">i")

# Magic, flags (version 1, independent blocks), blocks of at most 64 KiB, and the checksum of flags and block size.
_LZ4_HEADER = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_LENGTH = struct.Struct("<I")
# Set in the length of a block that is not compressed.
_LZ4_STORED = 1 << 31


def compress(codec: int, data: bytes) -> bytes:
    """`data` as Kafka's Java client would compress it."""
    if codec == NONE:
        return data
    if codec == GZIP:
        packer = zlib.compressobj(wbits=31)
        return packer.compress(data) + packer.flush()
    cramjam = _cramjam()
    if codec == SNAPPY:
        pieces = [_XERIAL_HEADER.pack(_XERIAL, 1, 1)]
        for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
            pieces += [_LENGTH.pack(len(block)), block]
        return b"".join(pieces)
    if codec == LZ4:
        return _lz4(data)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data))
    raise RecordError(Error.CORRUPT_MESSAGE, f"no compression has the number {codec}")


def _lz4(data: bytes) -> bytes:
    """A frame whose blocks do not depend on each other: Kafka reads no other, and cramjam's own frames are not so."""
    cramjam = _cramjam()
    pieces = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            pieces += [_LZ4_LENGTH.pack(len(block)), block]
        else:
            pieces += [_LZ4_LENGTH.pack(len(plain) | _LZ4_STORED), plain]
    pieces.append(_LZ4_LENGTH.pack(0))
    return b"".join(pieces)


def decompress(codec: int, data: bytes, max_bytes: int = MAX_BYTES) -> bytes:
    """The inverse. Raises `RecordError` for bytes that are no such data or that grow beyond `max_bytes`."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return _gunzip(data, max_bytes)
    if codec == SNAPPY:
        return _unsnappy(data, max_bytes)
    if codec in (LZ4, ZSTD):
        return _stream(getattr(_cramjam(), NAMES[codec]), codec, data, max_bytes)
    raise RecordError(Error.CORRUPT_MESSAGE, f"no compression has the number {codec}")


def _gunzip(data: bytes, max_bytes: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        out = unpacker.decompress(data, max_bytes)
    except zlib.error as error:
        raise RecordError(Error.CORRUPT_MESSAGE, f"gzip: {error}") from None
    if not unpacker.eof:
        words = "more than {max_bytes} bytes" if unpacker.unconsumed_tail else "cut short"
        raise RecordError(Error.CORRUPT_MESSAGE, f"gzip: {words.format(max_bytes=max_bytes)}")
    return out


def _unsnappy(data: bytes, max_bytes: int) -> bytes:
    if not data.startswith(_XERIAL):
        return _snappy_block(data, 0, max_bytes)
    pieces = []
    position, total = _XERIAL_HEADER.size, 0
    while position < len(data):
        if len(data) - position < _LENGTH.size:
            raise RecordError(Error.CORRUPT_MESSAGE, "snappy: cut short")
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if not 0 < length <= len(data) - position:
            raise RecordError(Error.CORRUPT_MESSAGE, f"snappy: a block of {length} bytes")
        pieces.append(_snappy_block(data[position : position + length], total, max_bytes))
        total += len(pieces[-1])
        position += length
    return b"".join(pieces)


def _snappy_block(data: bytes, before: int, max_bytes: int) -> bytes:
    cramjam = _cramjam()
    try:
        if before + cramjam.snappy.decompress_raw_len(data) > max_bytes:
            raise RecordError(Error.CORRUPT_MESSAGE, f"snappy: more than {max_bytes} bytes")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise RecordError(Error.CORRUPT_MESSAGE, f"snappy: {error}") from None


def _stream(module: Any, codec: int, data: bytes, max_bytes: int) -> bytes:
    """Decompresses into a buffer that grows by four until the data fits, since a frame need not say its size."""
    cramjam = _cramjam()
    size = min(max(len(data) * 4, 64 * 1024), max_bytes)
    while True:
        out = bytearray(size)
        try:
            return bytes(memoryview(out)[: module.decompress_into(data, out)])
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise RecordError(Error.CORRUPT_MESSAGE, f"{NAMES[codec]}: {error}") from None
            if size == max_bytes:
                raise RecordError(Error.CORRUPT_MESSAGE, f"{NAMES[codec]}: more than {max_bytes} bytes") from None
        size = min(size * 4, max_bytes)


def _cramjam() -> Any:
    try:
        return importlib.import_module("cramjam")
    except ImportError as error:
        raise MissingExtra("looking into snappy, lz4 or zstd needs cramjam: pip install 'dwell[broker]'") from error
