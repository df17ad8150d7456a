"""Schemas out of somebody's request: followed as far as it is safe, and never further."""

import time
from typing import Any

import pytest

from vllm_gate.judge.foreign_schema import mismatch

CITY = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}, "n": {"type": "integer"}}}


def test_a_value_that_fits_and_ones_that_do_not() -> None:
    assert mismatch({"city": "Paris", "n": 2}, CITY) == ""
    assert mismatch({"n": 2}, CITY) == "the whole: breaks 'required'"
    assert mismatch({"city": "Paris", "n": "2"}, CITY) == "n: breaks 'type'"


def test_a_schema_refers_to_its_own_parts() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    assert mismatch({"a": "x"}, schema) == "a: breaks 'type'"
    assert mismatch({"a": 1}, schema) == ""


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/never-asked"},
        {"$ref": "#/nowhere"},
        {"type": 7},
        {"properties": {"a": {"type": "no such"}}},
        {"$ref": "#"},
        {"properties": []},
    ],
)
def test_a_schema_that_can_not_be_followed_accepts_everything(schema: dict[str, Any]) -> None:
    assert mismatch({"a": 1}, schema) == ""


def test_a_pattern_that_would_take_an_hour_is_not_tried() -> None:
    started = time.monotonic()
    assert mismatch({"a": "a" * 40 + "!"}, {"properties": {"a": {"pattern": "^(a+)+$"}}}) == ""
    assert time.monotonic() - started < 5


def test_a_property_named_like_the_keyword_is_looked_at() -> None:
    assert mismatch({"pattern": 1}, {"properties": {"pattern": {"type": "string"}}}) == "pattern: breaks 'type'"


def test_a_giant_schema_is_not_compiled() -> None:
    assert mismatch(1, {"enum": ["x" * 300_000]}) == ""
