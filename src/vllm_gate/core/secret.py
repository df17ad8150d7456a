"""Secrets are a type, so that printing one by accident prints a mask."""

from __future__ import annotations

from collections.abc import Iterable

MASK = "***"
_SHORTEST_WORTH_MASKING = 4  # masking every "a" in a report would hide the report, not the key


class Secret:
    """A value that must never be printed, logged, compared in an error or put into a report."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one place that sends it."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class Redactor:
    """Replaces every known secret in a text by a mask. Longest first, so no tail of one is left."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        values = {secret.reveal().strip() for secret in secrets}
        self._values = sorted(
            (value for value in values if len(value) >= _SHORTEST_WORTH_MASKING), key=len, reverse=True
        )

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MASK)
        return text
