"""Structured output lands in the bucket that says how it is wrong."""

import pytest

from vllm_gate.judge.buckets import call_bucket, json_bucket

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "finish_reason", "bucket"),
    [
        ('{"city": "Oslo", "days": 3}', "stop", "valid"),
        ('\n {"city": "Oslo", "days": 3}\n', "stop", "valid"),
        ('{"city": "Ørsta 東京", "days": -1}', "stop", "valid"),
        ("", "stop", "empty"),
        ("   \n", "length", "empty"),
        ('{"city": "Oslo", "da', "stop", "truncated"),
        ('{"city": "Oslo", "days": 3', "stop", "truncated"),
        ('{"city": "Os', "length", "truncated"),
        ('{"city": "Oslo",' + " \n" * 20, "length", "endless_blanks"),
        ('{"city": "Oslo",' + " \n" * 20, "stop", "truncated"),
        ('{"city": "Oslo", "days": 1' + "0" * 100, "length", "runaway"),
        ('{"city": "' + "Oslo, " * 20, "length", "runaway"),
        ('{"city": "Oslo", "days": 1' + "0" * 20, "length", "truncated"),
        ('{"city": "Oslo", "days": 3} Have a nice day!', "stop", "trailing_text"),
        ('{"city": "Oslo", "days": 3}{"city": "Rome", "days": 1}', "stop", "trailing_text"),
        ('{"city": "Oslo", "days": 3}' + "\n" * 50, "length", "endless_blanks"),
        ('{"city": "Oslo", "days": 3}' + "\n" * 50, "stop", "valid"),
        ("Sure! Here it is.", "stop", "not_json"),
        ("{city: Oslo, days: 3}", "stop", "not_json"),
        ('{"city": "Oslo", "days": "3"}', "stop", "schema_mismatch"),
        ('{"city": "Oslo", "days": 3.5}', "stop", "schema_mismatch"),
        ('{"city": "Oslo"}', "stop", "schema_mismatch"),
        ('{"city": "Oslo", "days": 3, "mood": "fine"}', "stop", "schema_mismatch"),
        ("[]", "stop", "schema_mismatch"),
    ],
)
def test_json_answers(text: str, finish_reason: str, bucket: str) -> None:
    found, detail = json_bucket(text, SCHEMA, finish_reason)
    assert found == bucket
    assert bool(detail) is (bucket != "valid")


@pytest.mark.parametrize(
    ("arguments", "bucket"),
    [
        ('{"city": "Oslo", "da', "truncated"),
        ('"ada' + "_ada" * 60 + "_ad", "runaway"),
        ('{"city": "Oslo", "days": 3}', "valid"),
        ('{"city": "Oslo", "days": "3"}', "SchemaMismatch"),
    ],
)
def test_arguments_that_max_tokens_cut_are_no_broken_json(arguments: str, bucket: str) -> None:
    assert call_bucket("get_weather", arguments, {"get_weather": SCHEMA}, cut=True)[0] == bucket


@pytest.mark.parametrize(
    ("name", "arguments", "bucket"),
    [
        ("get_weather", '{"city": "Oslo", "days": 3}', "valid"),
        ("get_wether", '{"city": "Oslo", "days": 3}', "UnknownName"),
        ("", "{}", "UnknownName"),
        ("get_weather", '{"city": "Oslo", "da', "InvalidJson"),
        ("get_weather", "", "InvalidJson"),
        ("get_weather", '{"city": "Oslo", "days": "3"}', "SchemaMismatch"),
        ("get_weather", '{"city": "Oslo", "days": null}', "SchemaMismatch"),
        ("get_weather", '"{}"', "SchemaMismatch"),
    ],
)
def test_tool_calls_land_in_one_of_three_buckets(name: str, arguments: str, bucket: str) -> None:
    assert call_bucket(name, arguments, {"get_weather": SCHEMA})[0] == bucket


def test_the_detail_names_the_place() -> None:
    assert (
        "days: '3' is not of type 'integer'"
        in call_bucket("get_weather", '{"city": "Oslo", "days": "3"}', {"get_weather": SCHEMA})[1]
    )
