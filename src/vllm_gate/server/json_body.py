"""Reading a JSON body that may hold what JSON has no word for: NaN and Infinity are evidence, not a parse error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from vllm_gate.core.printable import excerpt
from vllm_gate.errors import UnusableAnswer


@dataclass(frozen=True, slots=True)
class JsonBody:
    """A parsed object and how many of its numbers are not finite."""

    value: Mapping[str, object]
    nonfinite: int


def parse_object(body: bytes, what: str) -> JsonBody:
    """Parse a JSON object. Raises UnusableAnswer, quoting the beginning, for anything else."""
    nonfinite = 0

    def constant(name: str) -> float:
        nonlocal nonfinite
        nonfinite += 1
        return float(name)

    def number(text: str) -> float:
        nonlocal nonfinite
        value = float(text)
        nonfinite += not math.isfinite(value)  # 1e999
        return value

    try:
        value = json.loads(body, parse_constant=constant, parse_float=number)
    except (ValueError, RecursionError) as error:
        text = body[:200].decode("utf-8", errors="replace")
        raise UnusableAnswer(f"{what} is not JSON ({type(error).__name__}): {excerpt(text)}") from None
    if not isinstance(value, dict):
        raise UnusableAnswer(f"{what} is JSON, but not an object: {excerpt(str(value))}")
    return JsonBody(value, nonfinite)
