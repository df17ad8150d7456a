"""Workflow commands hide in text: the runner obeys `::name::` at a line's start and `##[name]` anywhere in a line."""

from __future__ import annotations

import io
import re
from typing import TextIO

_AT_START = re.compile(r"^([^A-Za-z0-9:]*):(?=:)")
_ANYWHERE = re.compile(r"#(?=#\[)")
_APART = "\u200b"
"""A zero-width space: a reader sees the same text, the runner sees no command."""


def neutral(line: str) -> str:
    """One line of text that the runner takes for nothing but text."""
    return _ANYWHERE.sub(f"#{_APART}", _AT_START.sub(rf"\1:{_APART}", line))


class NeutralWriter(io.TextIOBase):
    """Stands for standard output or error: whole lines reach `out`, and none of them is a command."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._rest = ""

    def write(self, text: str) -> int:
        """Keep what is no whole line yet: a command may come in two pieces."""
        *lines, self._rest = re.split(r"(?<=[\r\n])", self._rest + text)
        self._out.write("".join(map(neutral, lines)))
        return len(text)

    def flush(self) -> None:
        """Whole lines only; `finish` lets go of the rest."""
        self._out.flush()

    def finish(self) -> None:
        """The last line, if it has no end."""
        rest, self._rest = self._rest, ""
        self._out.write(neutral(rest) + ("\n" if rest else ""))
        self._out.flush()

    def writable(self) -> bool:
        """Always."""
        return True
