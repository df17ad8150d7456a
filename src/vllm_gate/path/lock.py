"""`vllm-gate.lock.json`: the execution path that a reviewer approved, one fact a line."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_gate.errors import FileProblem
from vllm_gate.path.record import FIELDS, ExecutionPath, State

FORMAT = "vllm-gate execution path"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedFallback:
    """A fallback that somebody looked at. `expires` is the last day on which the approval counts."""

    id: str
    reason: str
    expires: datetime.date | None = None

    def holds(self, today: datetime.date) -> bool:
        """Whether the approval still counts."""
        return self.expires is None or today <= self.expires


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """What was approved. `facts` maps a field to its value, None where the log was to say nothing of it."""

    facts: Mapping[str, str | None] = field(default_factory=dict)
    fallbacks: tuple[ApprovedFallback, ...] = ()
    reason: str = ""

    def fallback(self, identity: str) -> ApprovedFallback | None:
        """The approval of a fallback, expired or not."""
        return next((approved for approved in self.fallbacks if approved.id == identity), None)


def approve(
    record: ExecutionPath, *, reason: str, expires: datetime.date | None = None, previous: Lock | None = None
) -> Lock:
    """The lock that approves what `record` shows. Fallbacks approved before keep their reason and expiry."""
    known = {approved.id: approved for approved in (previous.fallbacks if previous else ())}
    return Lock(
        facts={name: record[name].value for name in FIELDS if record[name].state is not State.UNKNOWN},
        fallbacks=tuple(
            known.get(fallback.id) or ApprovedFallback(id=fallback.id, reason=reason, expires=expires)
            for fallback in record.fallbacks
        ),
        reason=reason,
    )


def to_text(lock: Lock) -> str:
    """The file: stable order, one fact or fallback a line, so that a pull request shows what changed."""
    facts = [
        f"    {json.dumps(name)}: {json.dumps(lock.facts[name], ensure_ascii=False)}" for name in sorted(lock.facts)
    ]
    fallbacks = [
        f"    {json.dumps(_fallback(f), ensure_ascii=False)}" for f in sorted(lock.fallbacks, key=lambda f: f.id)
    ]
    return (
        "{\n"
        f'  "format": {json.dumps(FORMAT)},\n'
        f'  "version": {VERSION},\n'
        f'  "reason": {json.dumps(lock.reason, ensure_ascii=False)},\n'
        f'  "facts": {{{_lines(facts)}}},\n'
        f'  "fallbacks": [{_lines(fallbacks)}]\n'
        "}\n"
    )


def parse(text: str, path: str) -> Lock:
    """Read a lock. Raises FileProblem that says what is wrong with it."""
    try:
        body = json.loads(text)
    except ValueError as error:
        raise FileProblem(f"{path}: not JSON: {error}") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise FileProblem(f"{path}: not a lock of vllm-gate", hint="`vllm-gate approve --log FILE` writes one")
    if body.get("version") != VERSION:
        raise FileProblem(
            f"{path}: version {body.get('version')!r}, but this vllm-gate reads version {VERSION}",
            hint="approve the path again with this vllm-gate",
        )
    facts, fallbacks = body.get("facts"), body.get("fallbacks")
    if not isinstance(facts, dict) or not all(value is None or isinstance(value, str) for value in facts.values()):
        raise FileProblem(f"{path}: facts must map each field to a text or null")
    if not isinstance(fallbacks, list):
        raise FileProblem(f"{path}: fallbacks must be a list")
    return Lock(
        facts=facts,
        fallbacks=tuple(_read_fallback(entry, path) for entry in fallbacks),
        reason=str(body.get("reason", "")),
    )


def _lines(rows: list[str]) -> str:
    return "\n" + ",\n".join(rows) + "\n  " if rows else ""


def _fallback(approved: ApprovedFallback) -> dict[str, str]:
    expires = {"expires": approved.expires.isoformat()} if approved.expires else {}
    return {"id": approved.id, "reason": approved.reason, **expires}


def _read_fallback(entry: Any, path: str) -> ApprovedFallback:
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str) or not isinstance(entry.get("reason"), str):
        raise FileProblem(f"{path}: each fallback needs an id and a reason, both texts: {entry!r}")
    expires = entry.get("expires")
    try:
        until = None if expires is None else datetime.date.fromisoformat(expires)
    except (TypeError, ValueError):
        raise FileProblem(f"{path}: {expires!r} is no date; write expires as YYYY-MM-DD") from None
    return ApprovedFallback(id=entry["id"], reason=entry["reason"], expires=until)
