"""The shape of an answer: its fields and their types, without the values that differ from run to run.

A shape maps a route (`choices[].message.content`) to the JSON types seen there. Maps whose keys are tokens
(`prompt_logprobs`, `top_logprobs` of a completion) have the route part `{}` for any key.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

Shape = Mapping[str, frozenset[str]]

_KEYED_BY_TOKEN = re.compile(r"(prompt_logprobs|logprobs\.top_logprobs)\[\]$")
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}


def shape(*answers: object) -> Shape:
    """Of all answers together."""
    seen: defaultdict[str, set[str]] = defaultdict(set)
    for answer in answers:
        for route, kind in _walk("", answer):
            seen[route].add(kind)
    return {route: frozenset(kinds) for route, kinds in seen.items()}


def _walk(route: str, value: object) -> Iterator[tuple[str, str]]:
    yield route, _TYPES.get(type(value), "null")
    if isinstance(value, dict):
        for key, inner in value.items():
            name = "{}" if _KEYED_BY_TOKEN.search(route) else key
            yield from _walk(f"{route}.{name}" if route else name, inner)
    if isinstance(value, list):
        for inner in value:
            yield from _walk(f"{route}[]", inner)


def difference(real: Shape, other: Shape, *, other_name: str) -> list[str]:
    """How `other` departs from `real`, in sentences.

    A null or an empty list says nothing about what it could hold, and a field that is always null may be left out.
    """
    lacks = [
        f"{other_name} lacks {route}"
        for route in real.keys() - other.keys()
        if real[route] != {"null"} and _speaks_of(route, other)
    ]
    adds = [f"{other_name} adds {route}" for route in other.keys() - real.keys() if _speaks_of(route, real)]
    differs = [
        f"{other_name} has {'/'.join(sorted(other[route]))} at {route}, not {'/'.join(sorted(real[route]))}"
        for route in real.keys() & other.keys()
        if not ({"null"} >= real[route] or other[route] <= real[route] | {"null"})
    ]
    return sorted([*lacks, *adds, *differs])


def _speaks_of(route: str, where: Shape) -> bool:
    """Whether the nearest ancestor of a route that exists there is an object, which would hold it."""
    ancestor = route
    while ancestor and ancestor not in where:
        ancestor = re.sub(r"(\[\]|\.?[^.\[\]]+)$", "", ancestor)
    return "object" in where.get(ancestor, ())


def events(sse: str) -> list[Any]:
    """The JSON chunks of a stream; its `[DONE]` is the string."""
    datas = [line.removeprefix("data: ") for line in sse.splitlines() if line.startswith("data: ")]
    return [data if data == "[DONE]" else json.loads(data) for data in datas]


def metric_types(text: str) -> dict[str, str]:
    """Metric name to its Prometheus type."""
    return dict(re.findall(r"^# TYPE (vllm:\S+) (\S+)$", text, re.MULTILINE))
