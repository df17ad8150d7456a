"""The report for a person at a terminal: what is wrong first, every number beside its limit, and what to do."""

from __future__ import annotations

import io

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vllm_gate.core.finding import Evidence, Finding
from vllm_gate.core.printable import printable
from vllm_gate.core.report import GateResult, Report
from vllm_gate.core.verdict import Verdict
from vllm_gate.report.headline import HEADLINES

_MARKS = {
    Verdict.PASS: ("✓", "green"),
    Verdict.FAIL: ("✗", "bold red"),
    Verdict.ERROR: ("!", "bold magenta"),
    Verdict.INCONCLUSIVE: ("?", "bold yellow"),
    Verdict.SKIPPED: ("–", "dim"),
}
_EVIDENCE_LINES = 6


def to_text(report: Report, *, width: int = 100, color: bool = False) -> str:
    """The report as text, `width` columns wide; with `color`, in ANSI colours."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=color, no_color=not color, highlight=False, soft_wrap=False, emoji=False
    )
    console.print(headline(report))
    for gate in report.gates:
        console.print(gate_block(gate))
    console.print(footer(report))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def headline(report: Report) -> RenderableType:
    """One line with the verdict, and one with who was judged."""
    mark, style = _MARKS[report.verdict]
    said, meaning = HEADLINES[report.verdict]
    lines = [Text(f"{mark} {said.upper()}: {meaning}", style=style)]
    for service in report.services:
        version = f", vLLM {service.version}" if service.version else ""
        lines.append(Text(f"  {service.name}: {printable(service.model)} at {service.base_url}{version}", style="dim"))
    return Group(*lines)


def gate_block(gate: GateResult) -> RenderableType:
    """A gate's line, then each finding that is not a plain pass, then the passing checks by name."""
    mark, style = _MARKS[gate.verdict]
    number = f"gate {gate.number}" if gate.number else "path"
    head = Text.assemble((f"\n{mark} {number} · {gate.title}", style), (f"  {gate.verdict}", style))
    if gate.skipped:
        return head.append(f" ({gate.skipped})", style="dim")
    head.append(f"  {gate.duration_s:.1f} s", style="dim")
    loud = [finding for finding in gate.findings if finding.verdict is not Verdict.PASS or finding.warning]
    quiet = [finding for finding in gate.findings if finding not in loud]
    blocks: list[RenderableType] = [head, *(Padding(finding_block(finding), (0, 0, 0, 2)) for finding in loud)]
    blocks += [Padding(_passing_line(finding), (0, 0, 0, 2)) for finding in quiet]
    return Group(*blocks)


def finding_block(finding: Finding) -> RenderableType:
    """A finding whole: message, numbers, place, the way out, and the evidence below."""
    mark, style = ("!", "yellow") if finding.warning else _MARKS[finding.verdict]
    title = Text.assemble((f"{mark} {finding.check}: ", style), printable(finding.message))
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, style="dim", justify="right", min_width=8)
    table.add_column(overflow="fold")
    for label, text in _details(finding):
        table.add_row(label, Text(printable(text)))
    return Group(title, table, *(_evidence(evidence) for evidence in finding.evidence))


def _evidence(evidence: Evidence) -> RenderableType:
    lines = printable(evidence.text).splitlines() or [""]
    left_out = len(lines) - _EVIDENCE_LINES
    shown = [*lines[:_EVIDENCE_LINES], *([f"… {left_out} more lines in report.json"] if left_out > 0 else [])]
    text = Text("\n".join((f"┌ {printable(evidence.title)}", *(f"│ {line}" for line in shown))), style="dim")
    return Padding(text, (0, 0, 0, 9))


def footer(report: Report) -> RenderableType:
    """What was decided about rolling back, and the notes."""
    lines = []
    if report.decision and report.decision.action != "none":
        lines.append(Text(f"\nrollback: {report.decision.action} — {printable(report.decision.reason)}", style="bold"))
    lines += [Text(f"note: {printable(note)}", style="dim") for note in report.notes]
    return Group(*lines)


def _passing_line(finding: Finding) -> Text:
    mark, style = _MARKS[finding.verdict]
    return Text.assemble((f"{mark} {finding.check}", style), (f"  {printable(finding.message)}", "dim"))


def _details(finding: Finding) -> list[tuple[str, str]]:
    rows = []
    if finding.warning:
        rows.append(("warning", finding.warning))
    if finding.measured is not None:
        rows.append(("measured", _measurement(finding)))
    if finding.location:
        rows.append(("where", str(finding.location)))
    if finding.remedy:
        rows.append(("do", finding.remedy))
    return rows


def _measurement(finding: Finding) -> str:
    parts = [f"{_number(finding.measured)}{f' {finding.unit}' if finding.unit else ''}"]
    if finding.interval:
        interval = finding.interval
        parts.append(f"({interval.level:.0%} interval {_number(interval.low)} to {_number(interval.high)})")
    if finding.threshold is not None:
        parts.append(f"limit {_number(finding.threshold)}")
    if finding.samples is not None:
        parts.append(f"n = {finding.samples}")
    return ", ".join(parts)


def _number(value: float | str | None) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
