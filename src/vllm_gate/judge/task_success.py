"""Whether an answer did its task, as far as can be told without knowing the right one: a proxy, judged in pairs.

Each signal is a way to fail. Where a signal needs the other server's answer (a limit that only one of them hits, a
script that only one of them uses), it is read the same way for both sides, so that what healthy servers do by chance
cancels out. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_gate.judge.degeneration import degenerations, foreign_script
from vllm_gate.judge.diagnosis import declines
from vllm_gate.judge.foreign_schema import mismatch

_SANE = frozenset({"stop", "length", "tool_calls", "function_call", ""})
"""Finish reasons that say nothing bad; a recorded answer may lack its own."""
_STRANGE_LETTERS = 0.05
_READ = 20_000
"""Characters of a prompt and of an answer whose scripts are looked at."""
DEGENERATE = "degenerate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a request asks for. `tools` maps a name to the schema of its parameters."""

    prompt: str = ""
    """All text of the request."""
    wants_json: bool = False
    schema: Mapping[str, Any] | None = None
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    must_call: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a server answered. `calls` holds name and raw arguments of each tool call."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish_reason: str = ""
    stop_reason: str = ""
    nonfinite: int = 0
    """Numbers in the body that are none."""


def failures(task: Task, own: Said, other: Said) -> tuple[str, ...]:
    """Every signal of failure in `own`; empty for an answer that seems to have done its task.

    Names: `nonfinite`, `finish_reason`, `ran_on`, `json`, `tool_call`, `no_tool_call`, `refusal`, `script`, and
    `degenerate:WHERE:KIND`.
    """
    return tuple(_failures(task, own, other))


def is_degenerate(signals: tuple[str, ...]) -> bool:
    """Whether one of the signals is degeneration."""
    return any(signal.startswith(DEGENERATE) for signal in signals)


def _failures(task: Task, own: Said, other: Said) -> Iterator[str]:
    if own.nonfinite:
        yield "nonfinite"
    if own.finish_reason not in _SANE:
        yield "finish_reason"
    if own.finish_reason == "length" and other.finish_reason not in ("length", ""):
        yield "ran_on"
    if task.wants_json and not own.calls and not _is_json(own.text, task.schema):
        yield "json"
    if any(not _is_valid(call, task.tools) for call in own.calls):
        yield "tool_call"
    if not own.calls and (task.must_call or (task.tools and other.calls)):
        yield "no_tool_call"
    if declines(own.text) and not declines(other.text):
        yield "refusal"
    if _strange_script(own.text[:_READ], task.prompt[:_READ], other.text[:_READ]):
        yield "script"
    yield from _degenerate(own)


def _degenerate(own: Said) -> Iterator[str]:
    """The text, the thoughts and the arguments of calls, each by itself."""
    expected = not (own.calls or own.reasoning)
    parts = [("text", own.text, expected), ("reasoning", own.reasoning, False)]
    parts += [("arguments", arguments, False) for _, arguments in own.calls]
    for where, text, needed in parts:
        if not text and not needed:
            continue
        found = degenerations(text, finish_reason=own.finish_reason, stop_reason=own.stop_reason, text_expected=needed)
        yield from (f"{DEGENERATE}:{where}:{one.kind}" for one in found if one.certain)


def _is_json(text: str, schema: Mapping[str, Any] | None) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return schema is None or not mismatch(value, schema)


def _is_valid(call: tuple[str, str], tools: Mapping[str, Mapping[str, Any]]) -> bool:
    name, arguments = call
    return name in tools and _is_json(arguments or "{}", tools[name])


def _strange_script(own: str, prompt: str, other: str) -> bool:
    """Whether more than a few letters are of a script that neither the prompt nor the other answer uses."""
    if own.isascii():
        return False
    found = foreign_script(own, prompt, other, "a")
    return found is not None and found[1] > _STRANGE_LETTERS
