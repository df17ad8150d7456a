"""A golden suite: prompts with an agreed answer, read from YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator, SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from vllm_gate.config.diagnostic import Diagnostic, in_order, nearest
from vllm_gate.config.document import Document, Source, parse, walk
from vllm_gate.config.schema import violations
from vllm_gate.core.finding import Location

KINDS = ("exact", "regex", "contains", "one_of", "json_schema", "tool_call")


@dataclass(frozen=True, slots=True)
class Expectation:
    """How the right answer is recognised: one of `KINDS`, and its value in that kind's form."""

    kind: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenCase:
    """One case. `options` are request fields by their API names (temperature, tools, response_format, …)."""

    id: str
    messages: tuple[Mapping[str, Any], ...]
    expect: Expectation
    max_tokens: int = 64
    options: Mapping[str, Any] = field(default_factory=dict)
    location: Location


def read_suite(source: Source) -> tuple[tuple[GoldenCase, ...], tuple[Diagnostic, ...]]:
    """The cases of a suite, and every problem; the cases are only whole when there is no problem."""
    document = parse(source)
    problems = [*document.problems, *violations(document, "golden.schema.json")]
    if not problems:
        problems += _semantic(document)
    cases = () if problems else tuple(_case(document, index) for index in range(len(document.values["cases"])))
    return cases, in_order(problems)


def _case(document: Document, index: int) -> GoldenCase:
    fields = document.values["cases"][index]
    ((kind, value),) = fields["expect"].items()
    messages = fields.get("messages") or [{"role": "user", "content": fields["prompt"]}]
    passed_on = ("temperature", "tools", "tool_choice", "response_format")
    return GoldenCase(
        id=fields["id"],
        messages=tuple(messages),
        expect=Expectation(kind, tuple(value) if isinstance(value, list) else value),
        max_tokens=int(fields.get("max_tokens", 64)),
        options={key: fields[key] for key in passed_on if key in fields},
        location=document.locate(("cases", index)),
    )


def _semantic(document: Document) -> Iterator[Diagnostic]:
    seen: dict[str, int] = {}
    for index, fields in enumerate(document.values["cases"]):
        route = ("cases", index)
        if fields["id"] in seen:
            first = document.locate(("cases", seen[fields["id"]], "id"))
            yield document.problem((*route, "id"), f"{fields['id']!r} is taken by the case at {first}; ids are unique")
        seen.setdefault(fields["id"], index)
        ((kind, value),) = fields["expect"].items()
        if message := _not_usable(kind, value, fields.get("tools", [])):
            yield document.problem((*route, "expect", kind), message)


def _not_usable(kind: str, value: Any, tools: Sequence[Mapping[str, Any]]) -> str:
    """Why no answer could ever be held against this expectation; "" when one can."""
    if kind == "regex":
        return regex_problem(value)
    if kind == "json_schema":
        return json_schema_problem(value)
    if kind == "tool_call":
        names = [str(tool["function"].get("name")) for tool in tools if isinstance(tool.get("function"), dict)]
        if not names:
            return "a tool call is expected, but the case has no tools"
        if value["name"] not in names:
            return f"{value['name']!r} is none of the case's tools{nearest(value['name'], names)}"
    return ""


def regex_problem(pattern: str) -> str:
    """Why a pattern is no regular expression; "" when it is one."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        return f"not a regular expression: {error}"
    return ""


def json_schema_problem(schema: Mapping[str, Any]) -> str:
    """Why a schema can't be used; "" when it can."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"not a JSON Schema: {error.message}"
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for route, reference in walk(schema):
        if route[-1:] == ("$ref",) and isinstance(reference, str):
            try:
                resolver.lookup(reference)
            except (Unresolvable, ValueError):
                return f"nothing in this schema is at the $ref {reference!r}; other documents are not fetched"
    return ""
