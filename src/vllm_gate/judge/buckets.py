"""Structured output sorted by how it is wrong. Never by whether it looks nice.

The three buckets of tool calls are those of OpenRouter's Exacto: InvalidJson, UnknownName, SchemaMismatch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

VALID = "valid"
TRUNCATED, TRAILING, BLANKS, NOT_JSON, MISMATCH, EMPTY = (
    "truncated",
    "trailing_text",
    "endless_blanks",
    "not_json",
    "schema_mismatch",
    "empty",
)
INVALID_JSON, UNKNOWN_NAME, SCHEMA_MISMATCH = "InvalidJson", "UnknownName", "SchemaMismatch"
_MANY_BLANKS = 20


def json_bucket(text: str, schema: Mapping[str, Any], finish_reason: str) -> tuple[str, str]:
    """(bucket, detail) of an answer that should be one JSON value of `schema`.

    A text that is cut, that goes on after its value, or that goes on in blanks is told apart from one that is no JSON.
    """
    if not text.strip():
        return EMPTY, "the answer is empty"
    try:
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError as error:
        if finish_reason == "length":
            return TRUNCATED, "the answer was cut by max_tokens before its JSON was complete"
        at_end = "Unterminated string" in str(error) or getattr(error, "pos", 0) >= len(text.strip()) - 1
        opened = text.lstrip()[:1] in "{["
        return (TRUNCATED, "the JSON lacks its end") if opened and at_end else (NOT_JSON, f"no JSON: {error}")
    rest = text.lstrip()[end:]
    if rest.strip():
        return TRAILING, f"text follows the JSON: {rest.strip()[:80]!r}"
    if len(rest) >= _MANY_BLANKS and finish_reason == "length":
        return BLANKS, f"{len(rest)} blanks follow the JSON until max_tokens"
    mismatch = first_mismatch(value, schema)
    return (MISMATCH, mismatch) if mismatch else (VALID, "")


def call_bucket(name: str, arguments: str, tools: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """(bucket, detail) of one tool call. `tools` maps a name to its parameters' schema."""
    if name not in tools:
        return UNKNOWN_NAME, f"there is no tool {name!r}"
    try:
        value = json.loads(arguments)
    except ValueError as error:
        return INVALID_JSON, f"the arguments of {name} are no JSON ({error}): {arguments[:80]!r}"
    mismatch = first_mismatch(value, tools[name])
    return (SCHEMA_MISMATCH, f"the arguments of {name}: {mismatch}") if mismatch else (VALID, "")


def first_mismatch(value: Any, schema: Mapping[str, Any]) -> str:
    """Where and how a value breaks a JSON Schema; "" when it fits."""
    errors: Sequence[Any] = sorted(Draft202012Validator(schema).iter_errors(value), key=lambda error: str(error.path))
    if not errors:
        return ""
    path = ".".join(map(str, errors[0].absolute_path))
    return f"{path or 'the whole'}: {errors[0].message[:160]}"
