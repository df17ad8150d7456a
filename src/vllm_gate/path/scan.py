"""The few lines of a large log that may matter, found without looking at the others one by one.

A startup log is small; the log of a server that has run for a week is not, and almost all of it is access lines. Each
rule names a literal text that its messages hold (`needle`). Its first four bytes are looked up for every position of
a block at once, in a table of hashes, whatever the number of rules: some hundred megabytes a second. A line with a hit
is then read in full; a line without one can't match any rule. Needles that begin with a text that every request line
holds ("Using ", "Runn", "comp") would be correct and slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

BLOCK = 1 << 16
"""Bytes searched at once: what fits the processor's cache."""
LONGEST_LINE = 1 << 17
"""Bytes kept of one line. What follows them is dropped, so that memory stays flat."""
_GRAM = 4
_KNUTH = np.uint32(2654435761)
_SHIFT = np.uint32(16)


class Scanner:
    """Finds lines that hold one of the needles, each of at least four ASCII characters."""

    def __init__(self, needles: Iterable[str]) -> None:
        self._grams = frozenset(needle.encode("ascii")[:_GRAM] for needle in needles)
        self._table = np.zeros(1 << 16, dtype=np.bool_)
        for gram in self._grams:
            if len(gram) < _GRAM:
                raise ValueError(f"needle {gram!r} is shorter than {_GRAM} characters")
            self._table[_hash(np.frombuffer(gram, dtype="<u4"))] = True

    def lines(self, blocks: Iterable[bytes]) -> Iterator[tuple[int, str]]:
        """Number (from 1) and text of each line that holds a hit. A block ends where a line ends."""
        passed = 0
        for block in blocks:
            end = counted = 0
            for at in self._hits(block):
                if at < end or block[at : at + _GRAM] not in self._grams:
                    continue
                start = block.rfind(b"\n", 0, at) + 1
                passed += block.count(b"\n", counted, start)
                counted = start
                end = block.find(b"\n", at)
                end = len(block) if end < 0 else end
                yield passed + 1, block[start:end].decode("utf-8", errors="replace")
            passed += block.count(b"\n", counted)

    def _hits(self, block: bytes) -> list[int]:
        found = []
        for offset in range(min(_GRAM, len(block) - _GRAM + 1)):
            grams = np.frombuffer(block, dtype="<u4", count=(len(block) - offset) // _GRAM, offset=offset)
            found.append(np.flatnonzero(self._table.take(_hash(grams))) * _GRAM + offset)
        return [int(at) for at in np.sort(np.concatenate(found))] if found else []


def blocks_of_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, about `BLOCK` bytes at a time, from bytes that are cut anywhere."""
    pending = bytearray()
    for chunk in chunks:
        for at in range(0, len(chunk), BLOCK):
            pending += chunk[at : at + BLOCK]
            if len(pending) < BLOCK:
                continue
            end = pending.rfind(b"\n") + 1
            if end:
                yield bytes(pending[:end])
                del pending[:end]
            del pending[LONGEST_LINE:]
    if pending:
        yield bytes(pending)


def blocks_of_lines(lines: Iterable[str]) -> Iterator[bytes]:
    """The same from lines, with or without their ends. A line end inside a line is no line end."""
    batch: list[str] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line) + 1
        if size >= BLOCK:
            yield _block(batch)
            batch, size = [], 0
    if batch:
        yield _block(batch)


def _block(lines: list[str]) -> bytes:
    text = "\n".join(lines)
    if text.count("\n") >= len(lines):
        text = "\n".join(line.rstrip("\r\n").replace("\n", " ") for line in lines)
    return f"{text}\n".encode(errors="replace")


def _hash(grams: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint16]:
    hashed: npt.NDArray[np.uint16] = ((grams * _KNUTH) >> _SHIFT).astype(np.uint16)
    return hashed
