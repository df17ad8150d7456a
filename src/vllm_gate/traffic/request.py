"""One request of real traffic, whatever format it was recorded in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRequest:
    """A request that can be sent again: `body` is that of `endpoint`, as its client wrote it, without credentials."""

    id: str
    endpoint: str
    body: Mapping[str, Any]
    recorded: Mapping[str, Any] | None = None
    """The answer that production gave, in the form of `endpoint`; None where it was not recorded."""
    session: str = ""
    """What its conversation is known by; its requests are sampled together."""
    line: int = 0
    """Of the file, counted from 1."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that is no request to replay, and why. `bad` marks one that should have been."""

    reason: str
    line: int = 0
    bad: bool = False


class Format(Protocol):
    """One traffic format. A row is one JSON value of the file."""

    name: str

    def recognises(self, row: Mapping[str, Any]) -> bool:
        """Whether the row is of this format. Rows of another one must not be."""
        ...

    def read(self, row: Mapping[str, Any], line: int) -> list[TrafficRequest | Skipped]:
        """Everything that the row holds: mostly one request."""
        ...


@dataclass(slots=True)
class Tally:
    """What a file held. Constant in memory: reasons are few, and the first bad lines are kept."""

    requests: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    bad: int = 0
    first_bad: list[tuple[int, str]] = field(default_factory=list)
    """Line and reason of the first ones."""

    def skip(self, skipped: Skipped) -> None:
        """Count a row that is not replayed."""
        self.skipped[skipped.reason] = self.skipped.get(skipped.reason, 0) + 1
        if skipped.bad:
            self.bad += 1
            if len(self.first_bad) < 10:
                self.first_bad.append((skipped.line, skipped.reason))


def unsupported(messages: Any) -> str:
    """The kind of the first part that a text model can't be asked (`image_url`, `input_audio`, …); "" without one."""
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, Mapping) else None
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind not in ("text", "input_text", "output_text", "refusal"):
                return str(kind)
    return ""


def chat_or_skipped(request: TrafficRequest) -> TrafficRequest | Skipped:
    """The request, unless it has nothing to say or holds what can't be replayed."""
    asked = request.body.get("messages") if request.endpoint == CHAT else request.body.get("prompt")
    if not asked:
        return Skipped("no messages or prompt", request.line, bad=True)
    kind = unsupported(asked)
    return Skipped(f"unsupported part: {kind}", request.line) if kind else request
