"""The job summary in Markdown: one line with the verdict, one table, then each failure with its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from vllm_gate.core.report import GateResult, Report
from vllm_gate.core.verdict import Verdict
from vllm_gate.report.escape import markdown, table_cell, whole_blocks
from vllm_gate.report.finding_markdown import MARKS, finding_block, gist
from vllm_gate.report.headline import HEADLINES

_CUT = "*Cut here: report.json holds the rest.*"


def to_markdown(report: Report, *, limit: int, notes: tuple[str, ...] = ()) -> str:
    """The summary, at most `limit` bytes of UTF-8; what does not fit is left out at the end, and that is told."""
    first = (_head(report), _table(report), *_decision(report), *_listed(notes))
    last = ("### Notes", *_listed(report.notes)) if report.notes else ()
    return whole_blocks(chain(first, _details(report), last), limit, _CUT)


def _head(report: Report) -> str:
    said, meaning = HEADLINES[report.verdict]
    lines = [f"## {MARKS[report.verdict]} vllm-gate: {said}: {meaning}", ""]
    for service in report.services:
        version = f", vLLM {markdown(service.version)}" if service.version else ""
        lines.append(f"- {markdown(service.name)}: {markdown(service.model)}{version}")
    return "\n".join(lines).rstrip()


def _table(report: Report) -> str:
    rows = ["| gate | verdict | what was found | seconds |", "|---|---|---|---:|", *map(_row, report.gates)]
    return "\n".join(rows)


def _row(gate: GateResult) -> str:
    name = f"{gate.number} {gate.title}" if gate.number else gate.title
    verdict = f"{MARKS[gate.verdict]} {gate.verdict.value}"
    return f"| {table_cell(name)} | {verdict} | {table_cell(gist(gate))} | {gate.duration_s:.1f} |"


def _decision(report: Report) -> Iterator[str]:
    decision, rollback = report.decision, report.rollback
    if decision is None or not decision.matched:
        return
    yield f"**Rollback: {decision.action}.** {markdown(decision.reason)}"
    if rollback and rollback.dispatched:
        page = rollback.run_url
        where = f"[its run]({page})" if page.startswith("https://") and ")" not in page else "its run was not found"
        when = "an earlier request of this attempt had dispatched it" if rollback.already else "it is dispatched"
        yield f"{when}: {where}; correlation id `{rollback.correlation_id}`"
    if rollback and rollback.error:
        yield f"❌ **It could not be dispatched:** {markdown(rollback.error)}"
    if rollback and rollback.webhook:
        yield f"Webhook: {markdown(rollback.webhook)}"


def _details(report: Report) -> Iterator[str]:
    for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE):
        for gate in report.gates:
            for finding in gate.findings:
                if finding.verdict is verdict:
                    yield finding_block(finding, gate.title)
    warned = [(gate, finding) for gate in report.gates for finding in gate.findings if finding.warning]
    if warned:
        yield "### Warnings of checks that pass"
    for gate, finding in warned:
        yield f"- **{markdown(gate.title)}, {markdown(finding.check)}:** {markdown(finding.warning)}"


def _listed(notes: tuple[str, ...]) -> Iterator[str]:
    if notes:
        yield "\n".join(f"- {markdown(note)}" for note in notes)
