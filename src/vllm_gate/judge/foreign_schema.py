"""JSON Schemas out of somebody's request: nothing in one may reach the network, hang the judge, or break it.

What can't be compiled or followed accepts every value, as OpenRouter's Exacto has it. `pattern` is not looked at: a
pattern can be written to take an hour.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

_LARGEST = 200_000
_PATTERNS = ("pattern", "patternProperties")


def mismatch(value: Any, schema: Mapping[str, Any]) -> str:
    """Where and how a value breaks the schema; "" when it fits, or when the schema can't say."""
    try:
        text = json.dumps(schema, sort_keys=True)
        validator = _compiled(text) if len(text) <= _LARGEST else None
        error = next(validator.iter_errors(value), None) if validator else None
    except (RecursionError, Unresolvable, ValueError, TypeError, AttributeError):
        return ""
    if error is None:
        return ""
    return f"{'.'.join(map(str, error.absolute_path)) or 'the whole'}: breaks {error.validator!r}"


@lru_cache(maxsize=256)
def _compiled(text: str) -> Any:
    schema = _without_patterns(json.loads(text))
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        return None
    return Draft202012Validator(schema, registry=Registry())


def _without_patterns(schema: Any) -> Any:
    """The schema without what holds regular expressions; a property that is named so stays."""
    if isinstance(schema, list):
        return [_without_patterns(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_patterns(item) for name, item in value.items()}
        if key in ("properties", "$defs", "definitions") and isinstance(value, dict)
        else _without_patterns(value)
        for key, value in schema.items()
        if key not in _PATTERNS
    }
