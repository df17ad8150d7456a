"""Structured output sorted by how it is wrong. Never by whether it looks nice.

The three buckets of tool calls are those of OpenRouter's Exacto: InvalidJson, UnknownName, SchemaMismatch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from vllm_gate.judge.degeneration import LONGEST_PERIOD, periodic_runs

VALID = "valid"
TRUNCATED, RUNAWAY, TRAILING, BLANKS, NOT_JSON, MISMATCH, EMPTY = (
    "truncated",
    "runaway",
    "trailing_text",
    "endless_blanks",
    "not_json",
    "schema_mismatch",
    "empty",
)
INVALID_JSON, UNKNOWN_NAME, SCHEMA_MISMATCH = "InvalidJson", "UnknownName", "SchemaMismatch"
_MANY_BLANKS = 20
_RUNAWAY_CHARACTERS, _RUNAWAY_REPEATS = 64, 4


def json_bucket(text: str, schema: Mapping[str, Any], finish_reason: str) -> tuple[str, str]:
    """(bucket, detail) of an answer that should be one JSON value of `schema`.

    A text that is cut, that goes on after its value, or that goes on in blanks is told apart from one that is no JSON.
    One that max_tokens cut while the same piece came over and over is the model's loop, and not a cut answer.
    """
    if not text.strip():
        return EMPTY, "the answer is empty"
    try:
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError as error:
        if finish_reason == "length":
            return _cut(text)
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


def repeated_piece(text: str) -> str:
    """The piece that a text repeats up to its end, for long enough to be a loop; "" for one that does not."""
    letters = [ord(letter) for letter in text.rstrip()[-2000:]]
    for period in range(1, min(LONGEST_PERIOD, len(letters) // _RUNAWAY_REPEATS) + 1):
        least = max(_RUNAWAY_CHARACTERS, _RUNAWAY_REPEATS * period)
        runs = periodic_runs(letters, period, least)
        if runs and runs[-1].end == len(letters):
            return "".join(map(chr, letters[-period:]))
    return ""


def _cut(text: str) -> tuple[str, str]:
    """What max_tokens cut: blanks without end, a loop, or an answer on its way."""
    blanks = len(text) - len(text.rstrip())
    if blanks >= _MANY_BLANKS:
        return BLANKS, f"{blanks} blanks fill the unfinished JSON until max_tokens"
    if piece := repeated_piece(text):
        return RUNAWAY, f"{piece[:40]!r} is repeated until max_tokens"
    return TRUNCATED, "the answer was cut by max_tokens before its JSON was complete"


def call_bucket(
    name: str, arguments: str, tools: Mapping[str, Mapping[str, Any]], *, cut: bool = False
) -> tuple[str, str]:
    """(bucket, detail) of one tool call. `tools` maps a name to its parameters' schema.

    Arguments that max_tokens `cut` are no broken JSON: they lack their end, or run on without one.
    """
    if name not in tools:
        return UNKNOWN_NAME, f"there is no tool {name!r}"
    try:
        value = json.loads(arguments)
    except ValueError as error:
        if cut:
            bucket, detail = _cut(arguments)
            return bucket, f"the arguments of {name}: {detail}"
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
