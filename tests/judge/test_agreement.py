"""Each way of agreeing on an answer, met and missed."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_gate.judge.agreement import misses

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
CALL = {"name": "add", "arguments": {"a": 1, "b": [2.0, True], "c": {"d": None}}}


@pytest.mark.parametrize(
    ("kind", "wanted", "text"),
    [
        ("exact", "OK", " OK\n"),
        ("one_of", ("yes", "Yes."), "Yes. "),
        ("contains", "42", "The answer is 42."),
        ("regex", r"^\d+ apples$", "7 apples"),
        ("json_schema", SCHEMA, ' {"n": 3} '),
    ],
)
def test_the_agreed_answer_is_met(kind: str, wanted: Any, text: str) -> None:
    assert misses(kind, wanted, text) == ""


@pytest.mark.parametrize(
    ("kind", "wanted", "text", "why"),
    [
        ("exact", "OK", "ok", "it is not 'OK'"),
        ("one_of", ("yes", "no"), "maybe", "it is none of ['yes', 'no']"),
        ("contains", "42", "41", "it does not contain '42'"),
        ("regex", r"^\d+$", "seven", r"it does not match '^\\d+$'"),
        ("json_schema", SCHEMA, '{"n": "3"}', "it does not fit the schema ($.n: '3' is not of type 'integer')"),
        ("json_schema", SCHEMA, '```json\n{"n": 3}\n```', "it is not JSON (Expecting value: line 1 column 1 (char 0))"),
        ("json_schema", {}, "[NaN]", "it is not JSON (NaN is no JSON number)"),
        ("json_schema", {}, "[" * 100_000, "it is not JSON (nested too deeply)"),
    ],
)
def test_another_answer_is_missed_with_the_reason(kind: str, wanted: Any, text: str, why: str) -> None:
    assert misses(kind, wanted, text) == why


def test_a_call_is_met_by_name_and_typed_arguments() -> None:
    assert misses("tool_call", CALL, "", [("add", '{"c": {"d": null}, "b": [2, true], "a": 1.0}')]) == ""
    assert misses("tool_call", {"name": "add"}, "", [("add", "{}")]) == ""


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([], "it makes 0 tool calls, not 1"),
        ([("add", "{}"), ("add", "{}")], "it makes 2 tool calls, not 1"),
        ([("sub", "{}")], "it calls 'sub', not 'add'"),
        ([("add", "{")], "the arguments of add are not JSON"),
        ([("add", '{"a": "1", "b": [2, true], "c": {"d": null}}')], "it calls add with"),
        ([("add", '{"a": true, "b": [2, true], "c": {"d": null}}')], "it calls add with"),
        ([("add", '{"a": 1, "b": [2, 1], "c": {"d": null}}')], "it calls add with"),
        ([("add", '{"a": 1, "b": [2], "c": {"d": null}}')], "it calls add with"),
        ([("add", '{"a": 1, "b": [2, true], "c": {"e": null}}')], "it calls add with"),
    ],
)
def test_a_call_is_missed_by_number_name_or_type(calls: list[tuple[str, str]], why: str) -> None:
    assert misses("tool_call", CALL, "", calls).startswith(why)


def test_an_unknown_kind_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no such kind"):
        misses("similar", "OK", "OK")
