"""`report.json`: the whole run as one strict JSON object, described by `report.schema.json` beside this file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.resources import files
from typing import Any

from vllm_gate.core.report import GateResult, Report

SCHEMA_VERSION = 1


def to_dict(report: Report) -> dict[str, Any]:
    """The report as plain JSON values. A non-finite number becomes its name (`"NaN"`): JSON has none."""
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": report.verdict.value,
        "failed_gates": list(report.failed_gates),
        **_plain(report),
        "gates": [_gate(gate) for gate in report.gates],
    }


def to_json(report: Report) -> str:
    """`to_dict` as text: strict JSON, stable order, readable in a diff."""
    return json.dumps(to_dict(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `report.json`."""
    text = files("vllm_gate.report").joinpath("report.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _gate(gate: GateResult) -> dict[str, Any]:
    return {"verdict": gate.verdict.value, **_plain(gate)}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
