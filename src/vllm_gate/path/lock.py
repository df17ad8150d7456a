"""`vllm-gate.lock.json`: the execution path that a reviewer approved, one fact a line."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_gate.errors import FileProblem
from vllm_gate.path.contradictions import contradictions
from vllm_gate.path.record import FIELDS, ExecutionPath, State

FORMAT = "vllm-gate execution path"
VERSION = 1
VOLATILE = frozenset({"compile_cache"})
"""Fields that differ between starts of the very same server: never approved, never compared."""
_APPROVE_AGAIN = "`vllm-gate approve --log FILE` writes one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """A fallback, or a contradiction, that somebody looked at. `expires` is the last day on which that counts."""

    id: str
    reason: str
    expires: datetime.date | None = None

    def holds(self, today: datetime.date) -> bool:
        """Whether the approval still counts."""
        return self.expires is None or today <= self.expires


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """What was approved. `facts` maps a field to its value, None where the server was to say nothing of it."""

    facts: Mapping[str, str | None] = field(default_factory=dict)
    fallbacks: tuple[Approved, ...] = ()
    contradictions: tuple[Approved, ...] = ()
    reason: str = ""

    def fallback(self, identity: str) -> Approved | None:
        """The approval of a fallback, expired or not."""
        return next((approved for approved in self.fallbacks if approved.id == identity), None)

    def contradiction(self, name: str) -> Approved | None:
        """The approval of a contradiction, expired or not."""
        return next((approved for approved in self.contradictions if approved.id == name), None)


def approve(
    record: ExecutionPath,
    *,
    reason: str,
    today: datetime.date,
    expires: datetime.date | None = None,
    previous: Lock | None = None,
) -> Lock:
    """The lock that approves what `record` shows. Approvals that still hold keep their reason and expiry.

    Facts that this record leaves unknown (a log at another level, a warm cache) stay as they were approved.
    """
    before = previous or Lock()

    def approval(known: Approved | None, identity: str, explained: str = "") -> Approved:
        if known and known.holds(today):
            return known
        return Approved(id=identity, reason=explained or reason, expires=None if explained else expires)

    observed = {
        name: record[name].value for name in FIELDS if record[name].state is not State.UNKNOWN and name not in VOLATILE
    }
    return Lock(
        facts={**before.facts, **observed},
        fallbacks=tuple(approval(before.fallback(one.id), one.id, one.explanation) for one in record.fallbacks),
        contradictions=tuple(approval(before.contradiction(one.name), one.name) for one in contradictions(record)),
        reason=reason,
    )


def to_text(lock: Lock) -> str:
    """The file: stable order, one fact or approval a line, so that a pull request shows what changed."""
    facts = [
        f"    {json.dumps(name)}: {json.dumps(lock.facts[name], ensure_ascii=False)}" for name in sorted(lock.facts)
    ]
    return (
        "{\n"
        f'  "format": {json.dumps(FORMAT)},\n'
        f'  "version": {VERSION},\n'
        f'  "reason": {json.dumps(lock.reason, ensure_ascii=False)},\n'
        f'  "facts": {{{_lines(facts)}}},\n'
        f'  "fallbacks": [{_lines(_rows(lock.fallbacks))}],\n'
        f'  "contradictions": [{_lines(_rows(lock.contradictions))}]\n'
        "}\n"
    )


def parse(text: str, path: str) -> Lock:
    """Read a lock. Raises FileProblem that says what is wrong with it."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileProblem(f"{path}: not JSON: {error}", hint=_APPROVE_AGAIN) from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise FileProblem(f"{path}: not a lock of vllm-gate", hint=_APPROVE_AGAIN)
    if body.get("version") != VERSION:
        raise FileProblem(
            f"{path}: version {body.get('version')!r}, but this vllm-gate reads version {VERSION}",
            hint="approve the path again with this vllm-gate",
        )
    facts = body.get("facts")
    if not isinstance(facts, dict):
        raise FileProblem(f"{path}: facts must map each field to a text or null")
    for name, value in facts.items():
        if value is not None and not isinstance(value, str):
            raise FileProblem(f"{path}: facts.{name} must be a text or null, not {value!r}")
    return Lock(
        facts=facts,
        fallbacks=_approvals(body.get("fallbacks"), "fallbacks", path),
        contradictions=_approvals(body.get("contradictions", []), "contradictions", path),
        reason=str(body.get("reason", "")),
    )


def _rows(approvals: Iterable[Approved]) -> list[str]:
    rows = []
    for one in sorted(approvals, key=lambda approved: approved.id):
        expires = {"expires": one.expires.isoformat()} if one.expires else {}
        rows.append(f"    {json.dumps({'id': one.id, 'reason': one.reason, **expires}, ensure_ascii=False)}")
    return rows


def _lines(rows: list[str]) -> str:
    return "\n" + ",\n".join(rows) + "\n  " if rows else ""


def _approvals(entries: Any, key: str, path: str) -> tuple[Approved, ...]:
    if not isinstance(entries, list):
        raise FileProblem(f"{path}: {key} must be a list")
    approvals = []
    for number, entry in enumerate(entries, start=1):
        place = f"{path}: {key}, entry {number}"
        if not isinstance(entry, dict):
            raise FileProblem(f"{place}: must be an object with id and reason, not {entry!r}")
        for needed in ("id", "reason"):
            if not isinstance(entry.get(needed), str) or not entry[needed].strip():
                raise FileProblem(f"{place}: needs a {needed}, as text", hint="an approval says why it was given")
        if unknown := set(entry) - {"id", "reason", "expires"}:
            raise FileProblem(f"{place}: unknown key {min(unknown)!r}", hint="known: id, reason, expires")
        approvals.append(Approved(id=entry["id"], reason=entry["reason"], expires=_date(entry.get("expires"), place)))
    return tuple(approvals)


def _date(expires: object, place: str) -> datetime.date | None:
    if expires is None:
        return None
    try:
        return datetime.date.fromisoformat(str(expires))
    except ValueError:
        raise FileProblem(f"{place}: {expires!r} is no date; write expires as YYYY-MM-DD") from None
