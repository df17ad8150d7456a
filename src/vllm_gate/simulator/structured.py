"""JSON answers: a value that fits the schema a request asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.tokenizer import content_text

_DEEPEST = 6


def json_answer(body: Mapping[str, Any], faults: Faults) -> str | None:
    """The JSON text for `response_format`, vLLM's `structured_outputs`, or a schema in words; None without any."""
    schema = None if "schema_ignored" in faults else _schema(body)
    schema = schema or _schema_in_words(body)
    if schema is None:
        return None
    text = json.dumps(instance(schema, schema), ensure_ascii=False)
    return text[: len(text) * 2 // 3] if "json_truncated" in faults else text


def instance(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Any:
    """A value that is valid under `schema`: constants, enums, references, limits and required keys are kept."""
    if "$ref" in schema:
        return instance(_resolved(schema["$ref"], root), root, depth)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            options = schema[key]
            return instance(options[-1 if depth >= _DEEPEST else 0], root, depth + 1)
    if "allOf" in schema:
        merged = {key: value for part in schema["allOf"] for key, value in part.items()}
        return instance(merged, root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = "null" if depth >= _DEEPEST and "null" in kind else kind[0]
    return _of_kind(kind, schema, root, depth)


def _of_kind(kind: str, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    match kind:
        case "object":
            required = schema.get("required", [])
            properties = schema.get("properties", {})
            wanted = [key for key in properties if key in required or depth < _DEEPEST - 1]
            return {key: instance(properties[key], root, depth + 1) for key in wanted}
        case "array":
            count = max(schema.get("minItems", 0), 0 if depth >= _DEEPEST else 1)
            count = min(count, schema.get("maxItems", count))
            return [instance(schema.get("items") or {}, root, depth + 1) for _ in range(count)]
        case "integer":
            return _number(schema, 3)
        case "number":
            return _number(schema, 2.5)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return _string(schema)


def _number(schema: Mapping[str, Any], usual: float) -> float:
    low = schema.get("minimum", schema.get("exclusiveMinimum", usual - 1) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", max(usual, low) + 1) - 1)
    number: float = min(max(usual, low), high)
    return number


def _string(schema: Mapping[str, Any]) -> str:
    by_format = {"date": "2026-12-01", "date-time": "2026-12-01T10:00:00Z", "email": "a@example.org"}
    text = by_format.get(schema.get("format", ""), "blue")
    return text.ljust(schema.get("minLength", 0), "e")[: schema.get("maxLength", len(text) + 100)]


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        schema: Mapping[str, Any] = wanted["json_schema"]["schema"]
        return schema
    if wanted.get("type") == "json_object":
        return {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    structured = body.get("structured_outputs") or {}
    found = structured.get("json")
    return json.loads(found) if isinstance(found, str) else found


def _schema_in_words(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema that the last message shows after the words "JSON Schema:"."""
    messages = body.get("messages") or [{}]
    said = content_text(messages[-1])
    _, found, rest = said.partition("JSON Schema:")
    if not found:
        return None
    try:
        schema, _ = json.JSONDecoder().raw_decode(rest.lstrip())
    except ValueError:
        return None
    return schema if isinstance(schema, dict) else None


def _resolved(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    node: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        node = node[step] if step else node
    found: Mapping[str, Any] = node
    return found
