"""Fields of a JSON body read by type: what a server sends in another shape is read as absent, and never crashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """An object, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> Sequence[Any]:
    """A list, and an empty one for anything else."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """A text as it is, null as "", anything else as Python shows it."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def count(value: object) -> int | None:
    """A whole number, and None for anything else."""
    return value if type(value) is int else None


def number(value: object) -> float | None:
    """A number, finite or not, and None for anything else."""
    try:
        return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]
    except OverflowError:  # an integer of more than 308 digits
        return None


def token_ids(value: object) -> tuple[int, ...] | None:
    """A list of token ids, and None for anything else."""
    return tuple(value) if isinstance(value, list) and all(type(token) is int for token in value) else None
