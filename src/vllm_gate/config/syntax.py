"""What every parser of a configuration format gives back."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

Route = tuple[str | int, ...]
"""The way to a value: keys and 0-based item numbers."""


DEEPEST = 100
"""Keys and items on the way to a value, beyond which a text is no configuration."""


class SyntaxProblem(ValueError):
    """A text that can't be parsed, with the 1-based place."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.place = (max(line, 1), max(column, 1))


class Lines:
    """Turns places in a text into 1-based lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(newline.end() for newline in re.finditer("\n", text))]

    def place(self, at: int) -> tuple[int, int]:
        """Line and column of the character at `at`."""
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A key that stands twice in one mapping."""

    route: Route
    first: tuple[int, int]
    second: tuple[int, int]


Parsed = tuple[Any, dict[Route, tuple[int, int]], list[Duplicate]]
