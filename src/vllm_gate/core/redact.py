"""Takes every known secret out of a record before any reporter sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from vllm_gate.core.secret import Redactor

Record = TypeVar("Record")


def redact(record: Record, mask: Redactor) -> Record:
    """A copy of a dataclass, mapping, tuple or text (nested as may be) in which every secret is masked."""
    result: Any = _redact(record, mask)
    return result  # type: ignore[no-any-return]


def _redact(value: Any, mask: Redactor) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return mask(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: _redact(getattr(value, f.name), mask) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **changed)
    if isinstance(value, Mapping):
        return {_redact(key, mask): _redact(item, mask) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_redact(item, mask) for item in value)
    return value
