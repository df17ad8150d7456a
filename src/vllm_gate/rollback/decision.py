"""Whether to roll back: pure, so that the reason can be read from the report alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vllm_gate.core.report import Decision, Report
from vllm_gate.rollback.conditions import Condition, Match, matched

MODES = ("auto", "dry-run", "off")


def decide(
    report: Report,
    wanted: Sequence[str],
    known: Mapping[str, Condition],
    *,
    auto_rollback: bool,
    mode: str,
    pull_request: bool = False,
    on_pull_request: bool = False,
) -> Decision:
    """The decision and its reason.

    `mode` is `--rollback`. A pull request's candidate is not in production: it blocks the merge and rolls nothing
    back, unless `on_pull_request` says otherwise.
    """
    matches = matched(report, wanted, known)
    names = tuple(match.condition.name for match in matches)
    if not matches:
        return Decision(matched=(), reason="no rollback condition matched", action="none")
    why = _because(matches)
    if not auto_rollback or mode == "off":
        switch = "auto_rollback is false" if not auto_rollback else "--rollback off"
        return Decision(matched=names, reason=f"{why}; nothing is dispatched: {switch}", action="off")
    if pull_request and not on_pull_request:
        reason = f"{why}; a pull request blocks its merge and never rolls production back"
        return Decision(matched=names, reason=reason, action="not-on-this-event")
    return Decision(matched=names, reason=why, action="dry-run" if mode == "dry-run" else "dispatch")


def _because(matches: Sequence[Match]) -> str:
    parts = [f"{match.condition.name} ({match.findings[0].check}: {match.findings[0].message})" for match in matches]
    return "; ".join(parts)
