"""What every parser of a configuration format gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Route = tuple[str | int, ...]
"""The way to a value: keys and 0-based item numbers."""


class SyntaxProblem(ValueError):
    """A text that can't be parsed, with the 1-based place."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.place = (max(line, 1), max(column, 1))


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A key that stands twice in one mapping."""

    route: Route
    first: tuple[int, int]
    second: tuple[int, int]


Parsed = tuple[Any, dict[Route, tuple[int, int]], list[Duplicate]]
