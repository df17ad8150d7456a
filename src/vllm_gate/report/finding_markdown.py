"""One finding in Markdown, for the job summary and for a check run."""

from __future__ import annotations

from vllm_gate.core.finding import Finding
from vllm_gate.core.report import GateResult
from vllm_gate.core.verdict import Verdict
from vllm_gate.report.escape import code_block, markdown

MARKS = {
    Verdict.PASS: "✅",
    Verdict.FAIL: "❌",
    Verdict.ERROR: "⚠️",
    Verdict.INCONCLUSIVE: "❔",
    Verdict.SKIPPED: "➖",
}
_EVIDENCE_LINES = 12


def gist(gate: GateResult) -> str:
    """A gate in one sentence (plain text): its worst finding in its own words, and how many more there are."""
    if gate.skipped:
        return gate.skipped
    verdict = gate.verdict
    loud = [finding for finding in gate.findings if finding.verdict is verdict]
    if verdict is Verdict.PASS:
        warned = sum(bool(finding.warning) for finding in gate.findings)
        return f"{len(loud)} checks passed" + (f", {warned} with a warning" if warned else "")
    if not loud:
        return "no check was answered"
    more = f" (and {len(loud) - 1} more)" if len(loud) > 1 else ""
    return loud[0].message + more


def finding_block(finding: Finding, title: str = "") -> str:
    """Message, numbers, place, the way out, and the evidence. `title` goes before the check's name."""
    head = f"{title}: {finding.check}" if title else finding.check
    parts = [f"### {MARKS[finding.verdict]} {markdown(head)}", markdown(finding.message), numbers(finding)]
    if finding.warning:
        parts.append(f"**Warning:** {markdown(finding.warning)}")
    if finding.location:
        parts.append(f"at {markdown(str(finding.location))}")
    if finding.remedy:
        parts.append(f"**What to do:** {markdown(finding.remedy)}")
    for evidence in finding.evidence:
        lines = evidence.text.splitlines()
        left = len(lines) - _EVIDENCE_LINES
        shown = "\n".join(lines[:_EVIDENCE_LINES]) + (f"\n… {left} more lines in report.json" if left > 0 else "")
        parts.append(f"{markdown(evidence.title)}:\n\n{code_block(shown)}")
    return "\n\n".join(filter(None, parts))


def numbers(finding: Finding) -> str:
    """What was measured beside its limit, with interval and sample size; "" when nothing was."""
    parts = []
    if finding.measured is not None:
        parts.append(f"measured {_value(finding.measured)} {markdown(finding.unit)}".rstrip())
    if finding.interval:
        low, high = f"{finding.interval.low:.4g}", f"{finding.interval.high:.4g}"
        parts.append(f"{finding.interval.level:.0%} interval {low} to {high}")
    if finding.threshold is not None:
        parts.append(f"limit {_value(finding.threshold)}")
    if finding.samples is not None:
        parts.append(f"n = {finding.samples:,}")
    return ", ".join(parts)


def _value(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else markdown(str(value))
