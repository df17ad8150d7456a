"""Values made for a schema are valid under it."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from vllm_gate.simulator.structured import instance

TREE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name", "children"],
            "additionalProperties": False,
        }
    },
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 10, "maximum": 20},
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        {"type": "string", "minLength": 30, "maxLength": 31},
        {"type": ["null", "string"]},
        {"enum": ["größer", "kleiner"]},
        {"const": 4},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 3, "maxItems": 3},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"oneOf": [{"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}, {"type": "string"}]},
        {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"required": ["a"]}]},
        {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(60)}},
        TREE,
    ],
)
def test_an_instance_is_valid(schema: dict[str, Any]) -> None:
    jsonschema.validate(instance(schema, schema), schema)
