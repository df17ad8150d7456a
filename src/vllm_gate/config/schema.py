"""JSON Schema violations in the user's words: the value, what is allowed, and the nearest known key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from vllm_gate.config.diagnostic import Diagnostic, nearest
from vllm_gate.config.document import Document, describe

_TYPES = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_VARIABLE = "^[A-Za-z_][A-Za-z0-9_]*$"
_NUMERIC = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")


def load_schema(name: str) -> dict[str, Any]:
    """A schema that ships with the package, by its file name."""
    loaded: dict[str, Any] = json.loads(files("vllm_gate.config").joinpath(name).read_text(encoding="utf-8"))
    return loaded


def violations(document: Document, schema_name: str) -> Iterator[Diagnostic]:
    """Every way in which a parsed document breaks a shipped schema."""
    if document.values is None:
        return
    for error in Draft202012Validator(load_schema(schema_name)).iter_errors(document.values):
        yield from _told(document, error)


def _told(document: Document, error: ValidationError) -> Iterator[Diagnostic]:
    route = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        for key in _unknown(error):
            yield document.problem((*route, key), f"unknown key {key!r}{nearest(key, _known(error.schema))}")
    elif error.validator == "required":
        wanted: Any = error.validator_value
        missing = next(name for name in wanted if f"'{name}'" in error.message)
        yield document.problem(route, f"{missing!r} is missing; add it")
    else:
        yield document.problem(route, _sentence(error))


def _sentence(error: ValidationError) -> str:
    said = describe(error.instance)
    limit: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "type":
            return f"{said} stands where {_expected(limit)} is expected{_unquote(error.instance, limit)}"
        case "enum":
            return f"{said} is not allowed{nearest(str(error.instance), map(str, limit))}"
        case "minimum":
            return f"{said} is too small; at least {limit} is allowed"
        case "maximum":
            return f"{said} is too large; at most {limit} is allowed"
        case "exclusiveMinimum":
            return f"{said} is too small; it must be above {limit}"
        case "uniqueItems":
            return "an entry stands twice in this list; keep one of them"
        case "minItems" | "minProperties":
            return f"at least {limit} of the known entries {_are(limit)} needed here"
        case "maxProperties":
            return f"at most {limit} of the known entries {_are(limit)} allowed here, not {len(instance)}"
        case "minLength":
            return "the text is empty; write something, or leave the key out"
        case "pattern":
            return _not_of_the_form(said, str(limit))
        case "oneOf":
            choices = " or ".join(repr(option["required"][0]) for option in limit)
            return f"exactly one of {choices} is needed"
        case _:
            return error.message


def _unquote(instance: Any, wanted: Any) -> str:
    if wanted in ("number", "integer") and isinstance(instance, str) and _NUMERIC.fullmatch(instance):
        return f"; write {instance.strip()} without quotes"
    if wanted == "boolean" and str(instance).lower() in ("true", "false"):
        return f"; write {str(instance).lower()} without quotes"
    if wanted == "string" and isinstance(instance, bool | int | float | date):
        return "; put it in double quotes"
    if wanted == "array" and not isinstance(instance, dict):
        return f"; write [{json.dumps(instance)}]"
    return ""


def _expected(types: Any) -> str:
    return " or ".join(_TYPES.get(name, name) for name in ([types] if isinstance(types, str) else types))


def _not_of_the_form(said: str, pattern: str) -> str:
    """Neither an address nor what stands where a variable's name belongs is repeated: either may hold a secret."""
    if pattern.startswith("^https?://"):
        return "this is no address; write http://HOST:PORT/v1 or https://HOST/…"
    if pattern == _VARIABLE:
        return "this is not the name of an environment variable; name the variable, and keep the secret in it"
    if pattern == r"\S":
        return f"{said} is blank, so any blank answer would match it; write what is expected"
    return f"{said} is not of the form {pattern}"


def _unknown(error: ValidationError) -> list[str]:
    schema: Any = error.schema
    instance: Any = error.instance
    patterns = list(schema.get("patternProperties", ()))
    return [
        key
        for key in instance
        if key not in schema.get("properties", {}) and not any(re.search(pattern, key) for pattern in patterns)
    ]


def _known(schema: Any) -> list[str]:
    numbers = ["1, 2, 4, …"] if schema.get("patternProperties") else []
    return [*schema.get("properties", ()), *numbers]


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
