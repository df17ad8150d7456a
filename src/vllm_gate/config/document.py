"""A parsed file: plain values, and the place of every key and item."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from vllm_gate.config.diagnostic import Diagnostic
from vllm_gate.config.parse_json import parse_json
from vllm_gate.config.parse_toml import parse_toml
from vllm_gate.config.parse_yaml import parse_yaml
from vllm_gate.config.syntax import Duplicate, Parsed, Route, SyntaxProblem
from vllm_gate.core.finding import Location

_HALF_A_PAIR = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Source:
    """A file's path, for messages, and its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """`values` is None where the text could not be parsed; `problems` then says why."""

    source: Source
    values: Any
    places: Mapping[Route, tuple[int, int]]
    """1-based line and column of each key (in a mapping) or item (in a list)."""
    problems: tuple[Diagnostic, ...] = ()

    def locate(self, route: Route) -> Location:
        """The place of `route`, or of its deepest ancestor that the file holds."""
        while route and route not in self.places:
            route = route[:-1]
        return Location(self.source.path, *self.places.get(route, (1, 1)))

    def problem(self, route: Route, message: str, *, warning: bool = False) -> Diagnostic:
        """A diagnostic at `route`."""
        return Diagnostic(location=self.locate(route), key=dotted(route), message=message, warning=warning)


def parse(source: Source) -> Document:
    """Parse by the file's extension; a file of another name by what it looks like."""
    parser = _parser(source)
    if not source.text.strip():
        return _broken(source, (1, 1), "the file is empty")
    try:
        values, places, duplicates = parser(source.text.removeprefix("\ufeff"))
    except SyntaxProblem as problem:
        return _broken(source, problem.place, str(problem))
    except RecursionError:
        return _broken(source, (1, 1), "nested too deeply to be a configuration")
    document = Document(source, values, places)
    if not isinstance(values, dict):
        return _broken(source, (1, 1), f"a mapping of keys is expected, not {describe(values)}")
    problems = [_twice(document, duplicate) for duplicate in duplicates]
    problems += [
        document.problem(route, "half a surrogate pair (\\uD800 to \\uDFFF) is no character; remove it")
        for route, value in walk(values)
        if any(isinstance(text, str) and _HALF_A_PAIR.search(text) for text in (value, *route[-1:]))
    ]
    problems += [
        document.problem(route, f"{value} is not a number that can be compared; write a finite one")
        for route, value in walk(values)
        if isinstance(value, float) and not math.isfinite(value)
    ]
    return Document(source, values, places, tuple(problems))


def dotted(route: Route) -> str:
    """`a.b[2].c`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in route)
    return text.removeprefix(".")


def walk(value: Any, route: Route = ()) -> list[tuple[Route, Any]]:
    """Every value below and including `value`, with its route."""
    found = [(route, value)]
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in steps:
        found += walk(item, (*route, step))
    return found


def describe(value: Any) -> str:
    """A value as a message names it: `"0.02" (a text)`."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"{str(value).lower()} (a boolean)"
    if isinstance(value, int | float):
        return f"{value} (a number)"
    if isinstance(value, str):
        shown = value if len(value) <= 60 else value[:60] + "…"
        return f'"{shown}" (a text)'
    if isinstance(value, date):
        return f"{value} (a date)"
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else repr(value)


def _parser(source: Source) -> Callable[[str], Parsed]:
    by_extension = {"json": parse_json, "toml": parse_toml, "yaml": parse_yaml, "yml": parse_yaml}
    extension = source.path.rpartition(".")[2].lower()
    if extension in by_extension:
        return by_extension[extension]
    start = source.text.lstrip("\ufeff \t\r\n")
    return parse_json if start.startswith("{") else parse_toml if start.startswith("[") else parse_yaml


def _broken(source: Source, place: tuple[int, int], message: str) -> Document:
    problem = Diagnostic(location=Location(source.path, *place), key="", message=message)
    return Document(source, None, {}, (problem,))


def _twice(document: Document, duplicate: Duplicate) -> Diagnostic:
    return Diagnostic(
        location=Location(document.source.path, *duplicate.second),
        key=dotted(duplicate.route),
        message=f"the key stands twice (first on line {duplicate.first[0]}); keep one of them",
    )
