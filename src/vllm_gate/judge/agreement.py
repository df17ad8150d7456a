"""Whether an answer is the agreed one, by each way in which an agreement can be put."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from jsonschema import Draft202012Validator

_SEARCHED = 20_000
"""Characters that a regular expression is tried on: the text is the model's, and backtracking is not bounded."""


def misses(kind: str, wanted: Any, text: str, calls: Sequence[tuple[str, str]] = ()) -> str:
    """Why an answer is not the agreed one; "" when it is.

    `kind` is one of exact, one_of, contains, regex, json_schema, tool_call, and `wanted` has that kind's form; `calls`
    are the tool calls as (name, raw arguments). Blanks around a text never count. Raises ValueError for another kind.
    """
    match kind:
        case "exact":
            return "" if text.strip() == wanted.strip() else f"it is not {wanted.strip()!r}"
        case "one_of":
            return "" if text.strip() in {choice.strip() for choice in wanted} else f"it is none of {list(wanted)!r}"
        case "contains":
            return "" if wanted in text else f"it does not contain {wanted!r}"
        case "regex":
            return "" if re.search(wanted, text[:_SEARCHED]) else f"it does not match {wanted!r}"
        case "json_schema":
            return _misses_schema(wanted, text)
        case "tool_call":
            return _misses_call(wanted, calls)
    raise ValueError(f"no such kind of agreement: {kind}")


def _misses_schema(schema: Any, text: str) -> str:
    try:
        value = _parsed(text)
    except ValueError as error:
        return f"it is not JSON ({error})"
    problem = next(iter(Draft202012Validator(schema).iter_errors(value)), None)
    return "" if problem is None else f"it does not fit the schema ({problem.json_path}: {problem.message[:200]})"


def _misses_call(wanted: Any, calls: Sequence[tuple[str, str]]) -> str:
    """Exactly one call, of that function, and with those arguments where any are given."""
    if len(calls) != 1:
        return f"it makes {len(calls)} tool calls, not 1"
    ((name, raw),) = calls
    if name != wanted["name"]:
        return f"it calls {name!r}, not {wanted['name']!r}"
    try:
        arguments = _parsed(raw)
    except ValueError as error:
        return f"the arguments of {name} are not JSON ({error})"
    if "arguments" in wanted and not _same(arguments, wanted["arguments"]):
        return f"it calls {name} with {raw[:200]}, not {json.dumps(wanted['arguments'], ensure_ascii=False)}"
    return ""


def _parsed(text: str) -> Any:
    """JSON as the standard has it. Raises ValueError, for NaN and Infinity too."""
    try:
        return json.loads(text, parse_constant=_refused)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _same(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 and 1.0 are the same number, but true is no number and "1" is a text."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
