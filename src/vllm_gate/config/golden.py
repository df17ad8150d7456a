"""A golden suite: prompts with an agreed answer, read from YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

from vllm_gate.config.diagnostic import Diagnostic, in_order
from vllm_gate.config.document import Document, Source, parse
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
        expect = fields["expect"]
        if "regex" in expect:
            try:
                re.compile(expect["regex"])
            except re.error as error:
                yield document.problem((*route, "expect", "regex"), f"not a regular expression: {error}")
        if "json_schema" in expect:
            try:
                Draft202012Validator.check_schema(expect["json_schema"])
            except SchemaError as error:
                yield document.problem((*route, "expect", "json_schema"), f"not a JSON Schema: {error.message}")
        if "tool_call" in expect and not fields.get("tools"):
            yield document.problem(
                (*route, "expect", "tool_call"), "a tool call is expected, but the case has no tools"
            )
