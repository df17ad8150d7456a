"""JSON with the place of every value. Python's own parser tells neither places nor duplicate keys."""

from __future__ import annotations

import re
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Any, NoReturn

from vllm_gate.config.syntax import DEEPEST, Duplicate, Lines, Parsed, Route, SyntaxProblem

_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z-]\w*")
_WORDS = {"true": True, "false": False, "null": None}


def parse_json(text: str) -> Parsed:
    """Parse strict JSON (RFC 8259). Raises SyntaxProblem with the place and the likely cause."""
    scanner = _Scanner(text)
    at = scanner.skip(0)
    value, at = scanner.value(at, ())
    if (at := scanner.skip(at)) != len(text):
        scanner.fail(at, f"nothing may follow the end of the document, but {text[at]!r} does")
    return value, scanner.places, scanner.duplicates


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self._place = Lines(text).place
        self.places: dict[Route, tuple[int, int]] = {}
        self.duplicates: list[Duplicate] = []

    def value(self, at: int, route: Route) -> tuple[Any, int]:
        """The value that starts at `at`, and where it ends."""
        if len(route) > DEEPEST:
            self.fail(at, "nested too deeply to be a configuration")
        start = self.text[at : at + 1]
        if start == "{":
            return self._mapping(at, route)
        if start == "[":
            return self._list(at, route)
        if start == '"':
            return self._string(at)
        if number := _NUMBER.match(self.text, at):
            return self._number(number), number.end()
        word = _WORD.match(self.text, at)
        if not (word and word[0] in _WORDS):
            self.fail(at, self._not_a_value(at, word[0] if word else start))
        return _WORDS[word[0]], word.end()

    def _number(self, number: re.Match[str]) -> int | float:
        try:
            return (float if number[1] or number[2] else int)(number[0])
        except ValueError:  # Python bounds the digits of a whole number
            self.fail(number.start(), "the number has too many digits")

    def _mapping(self, at: int, route: Route) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        at = self.skip(at + 1)
        while self.text[at : at + 1] != "}":
            if self.text[at : at + 1] != '"':
                self.fail(at, "a key in double quotes is expected here (is there a comma too many before it?)")
            place = self._place(at)
            key, at = self._string(at)
            own = (*route, key)
            if key in values:
                self.duplicates.append(Duplicate(own, self.places[own], place))
            self.places[own] = place
            at = self._expect(":", at, "after the key")
            values[key], at = self.value(at, own)
            at = self._next(at, "}")
        return values, at + 1

    def _list(self, at: int, route: Route) -> tuple[list[Any], int]:
        items: list[Any] = []
        at = self.skip(at + 1)
        while self.text[at : at + 1] != "]":
            own = (*route, len(items))
            self.places[own] = self._place(at)
            item, at = self.value(at, own)
            items.append(item)
            at = self._next(at, "]")
        return items, at + 1

    def _next(self, at: int, end: str) -> int:
        """The start of the next entry, or the place of `end`."""
        at = self.skip(at)
        if self.text[at : at + 1] == end:
            return at
        after = self._expect(",", at, f"between entries, or {end!r} after the last")
        if self.text[after : after + 1] == end:
            self.fail(at, "a comma may not follow the last entry; remove it")
        return after

    def _expect(self, mark: str, at: int, where: str) -> int:
        at = self.skip(at)
        if self.text[at : at + 1] != mark:
            self.fail(at, f"{mark!r} is missing {where}")
        return self.skip(at + 1)

    def _string(self, at: int) -> tuple[str, int]:
        try:
            text, end = scanstring(self.text, at + 1)
        except JSONDecodeError as error:
            self.fail(error.pos, f"{error.msg[0].lower()}{error.msg[1:].removesuffix(' at')}")
        return text, end

    def _not_a_value(self, at: int, start: str) -> str:
        if not start:
            return "the file ends in the middle"
        if start in ("NaN", "Infinity", "-Infinity"):
            return f"{start} is not a number that can be compared; write a finite one"
        if start.lower() in ("true", "false", "none", "null"):
            return f"write {'null' if start.lower() == 'none' else start.lower()!s}, not {start}"
        if start == "'":
            return "texts stand in double quotes, not in single ones"
        if self.text[at : at + 2] in ("//", "/*") or start == "#":
            return "JSON has no comments; remove it, or use YAML"
        return f"a value is expected here, not {start!r}"

    def skip(self, at: int) -> int:
        """The next place that is not blank."""
        blank = _BLANK.match(self.text, at)
        return blank.end() if blank else at

    def fail(self, at: int, message: str) -> NoReturn:
        """Raises SyntaxProblem."""
        raise SyntaxProblem(message, *self._place(at))
