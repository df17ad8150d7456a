"""Server-sent events, as far as these APIs use them: the `data` of each event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def event_data(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event, whatever the chunks its bytes arrive in.

    Events end with an empty line and their `data` lines are joined by a newline (WHATWG HTML, 9.2.6); lines end with
    LF or CRLF. Comments (`: ping`) and other fields are passed over. Data left over at the end is an event too.
    """
    parts: list[bytes] = []
    for line in _lines(chunks):
        if line.startswith(b"data:"):
            parts.append(line[5:].removeprefix(b" "))
        elif not line and parts:
            yield b"\n".join(parts)
            parts = []
    if parts:
        yield b"\n".join(parts)


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    pending: list[bytes] = []  # joined only at a line's end: a huge line in many chunks stays linear
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        pending.append(first)
        for other in others:
            yield b"".join(pending).removesuffix(b"\r")
            pending = [other]
    if rest := b"".join(pending):
        yield rest.removesuffix(b"\r")
