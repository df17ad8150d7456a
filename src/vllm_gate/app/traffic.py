"""Opens a traffic log: plain, gzip or zstd, read as a stream of lines."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from vllm_gate.errors import FileProblem

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@contextmanager
def open_traffic(path: Path) -> Iterator[Iterator[bytes]]:
    """The lines of the file, unpacked by what its first bytes say (its name may say anything). Raises FileProblem."""
    try:
        with path.open("rb") as raw:
            start = raw.read(4)
            raw.seek(0)
            with _unpacked(raw, start) as content:
                yield _lines(content, path)
    except OSError as problem:
        raise FileProblem(f"{path}: the traffic log can't be read: {problem.strerror or problem}") from problem


def _unpacked(raw: IO[bytes], start: bytes) -> Any:
    if start.startswith(_GZIP):
        return gzip.GzipFile(fileobj=raw)
    return zstd.ZstdFile(raw) if start.startswith(_ZSTD) else raw


def _lines(content: IO[bytes], path: Path) -> Iterator[bytes]:
    """One by one. A file that was cut in the middle of its compression says so."""
    try:
        yield from content
    except (EOFError, OSError, ValueError, zstd.ZstdError) as problem:
        raise FileProblem(f"{path}: the traffic log is cut or damaged: {problem}") from problem
