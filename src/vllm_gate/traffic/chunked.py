"""The chunked transfer coding of HTTP/1.1 (RFC 9112, section 7.1), in which a proxy may send on a body."""

from __future__ import annotations

from typing import BinaryIO

_LINE = 4096
_TRAILERS = 64


def read_chunked(stream: BinaryIO, limit: int) -> bytes:
    """The whole body. Raises ValueError when it is damaged, cut off, or longer than `limit` bytes."""
    parts: list[bytes] = []
    size = 0
    while length := _length(_line(stream)):
        size += length
        if size > limit:
            raise ValueError(f"a body of more than {limit} bytes")
        parts.append(part := stream.read(length))
        if len(part) < length or stream.read(2) != b"\r\n":
            raise ValueError("a chunk that was cut off")
    for _ in range(_TRAILERS):
        if not _line(stream):
            return b"".join(parts)
    raise ValueError("trailers without end")


def _line(stream: BinaryIO) -> bytes:
    line = stream.readline(_LINE)
    if not line.endswith(b"\r\n"):
        raise ValueError("a line that was cut off")
    return line[:-2]


def _length(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or not all(digit in b"0123456789abcdefABCDEF" for digit in digits):
        raise ValueError("a chunk without its length")
    return int(digits, 16)
