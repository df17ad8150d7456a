"""TOML with the place of every key. `tomllib` gives the values; a short walk over the same text gives the places."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from typing import NoReturn

from vllm_gate.config.syntax import DEEPEST, Lines, Parsed, Route, SyntaxProblem

_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_TUPLE = re.compile(r"\((?:'[^']*',? ?)+\)")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+)\s*""")
_STRINGS = (
    re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\]|\\.)*"'),
    re.compile(r"'[^']*'"),
)
_BARE = re.compile(r"[^,\]}#\n]+")


def parse_toml(text: str) -> Parsed:
    """Parse TOML 1.0, which itself forbids a key to stand twice. Raises SyntaxProblem with the place."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        _explain(text, str(error))
    except ValueError:  # Python bounds the digits of a whole number, and does not tell where it stopped
        raise SyntaxProblem("a number in this file has too many digits", 1, 1) from None
    return values, _Places(text).read(), []


def _explain(text: str, message: str) -> NoReturn:
    place = _PLACE.search(message)
    if place and place[1]:
        line, column = int(place[1]), int(place[2])
    else:
        line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
    words = _TUPLE.sub(lambda keys: ".".join(re.findall(r"'([^']*)'", keys[0])), _PLACE.sub("", message))
    if words == "Cannot overwrite a value":
        words = "the key of this value stands twice; keep one of them"
    raise SyntaxProblem(f"{words[:1].lower()}{words[1:]}", line, column)


class _Places:
    """Walks a text that is known to be valid TOML."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = Lines(text).place
        self._at = 0
        self._places: dict[Route, tuple[int, int]] = {}
        self._tables: Counter[Route] = Counter()

    def read(self) -> dict[Route, tuple[int, int]]:
        table: Route = ()
        while self._skip():
            if self._text.startswith("[[", self._at):
                table = self._header(2)
                self._tables[table] += 1
                table = (*table, self._tables[table] - 1)
                self._places[table] = self._places[table[:-1]]
            elif self._text.startswith("[", self._at):
                table = self._header(1)
            else:
                self._pair(table)
        return self._places

    def _header(self, brackets: int) -> Route:
        self._at += brackets
        route = self._keys(())
        self._at += brackets
        return route

    def _pair(self, table: Route) -> None:
        route = self._keys(table)
        self._at += 1  # the equals sign
        self._value(route)

    def _keys(self, table: Route) -> Route:
        """A dotted key below `table`; every step of it gets a place, the first one found."""
        route = table
        while key := _KEY.match(self._text, self._at):
            route = self._inside((*route, _unquoted(key[1])))
            self._check_depth(route)
            self._places.setdefault(route, self._place(key.start(1)))
            self._at = key.end()
            if not self._text.startswith(".", self._at):
                break
            self._at += 1
        return route

    def _inside(self, route: Route) -> Route:
        """A key below an array of tables belongs to its latest table."""
        count = self._tables.get(route[:-1], 0)
        return (*route[:-1], count - 1, route[-1]) if count else route

    def _value(self, route: Route) -> None:
        self._skip()
        self._check_depth(route)
        if self._text.startswith("[", self._at):
            self._list(route)
        elif self._text.startswith("{", self._at):
            self._inline_table(route)
        else:
            self._scalar()

    def _list(self, route: Route) -> None:
        self._at += 1
        for index in range(len(self._text)):
            self._skip()
            if self._text.startswith("]", self._at):
                break
            self._places[(*route, index)] = self._place(self._at)
            self._value((*route, index))
            self._comma()
        self._at += 1

    def _inline_table(self, route: Route) -> None:
        self._at += 1
        while self._skip() and not self._text.startswith("}", self._at):
            self._pair(route)
            self._comma()
        self._at += 1

    def _scalar(self) -> None:
        for pattern in (*_STRINGS, _BARE):
            if found := pattern.match(self._text, self._at):
                self._at = found.end()
                return
        self._at += 1

    def _check_depth(self, route: Route) -> None:
        if len(route) > DEEPEST:
            raise SyntaxProblem("nested too deeply to be a configuration", *self._place(self._at))

    def _comma(self) -> None:
        self._skip()
        if self._text.startswith(",", self._at):
            self._at += 1

    def _skip(self) -> bool:
        """Move to the next thing that is neither blank nor a comment; False at the end."""
        if blank := _BLANK.match(self._text, self._at):
            self._at = blank.end()
        return self._at < len(self._text)


def _unquoted(key: str) -> str:
    if key[0] == '"':
        return str(tomllib.loads(f"key = {key}")["key"])
    return key[1:-1] if key[0] == "'" else key
