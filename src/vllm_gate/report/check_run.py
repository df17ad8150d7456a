"""A gate as a check run's output: title, summary, text and annotations, each within GitHub's limits. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vllm_gate.core.finding import Finding, Location
from vllm_gate.core.printable import printable
from vllm_gate.core.report import GateResult
from vllm_gate.core.verdict import Verdict
from vllm_gate.report.escape import cut_bytes, markdown, table_cell, whole_blocks
from vllm_gate.report.finding_markdown import MARKS, finding_block, gist

TEXT_LIMIT = 65_000
"""Bytes of summary and of text each. GitHub takes 65,535, counted in bytes whatever its description says."""
MESSAGE_LIMIT = 60_000
"""Bytes of an annotation's message and details. GitHub takes 64 KB."""
TITLE_LIMIT = 250
"""Characters of a title. GitHub takes 255 of an annotation's."""
ANNOTATIONS_LIMIT = 500
"""More than a person reads, and ten requests of 50: GitHub's limit is 80 changes a minute."""
_CELL_LIMIT = 1_000
"""Characters of one message in a table."""
_TABLE_LIMIT = 50_000
"""Bytes."""
_ORDER = (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASS)
_LEVELS = {Verdict.FAIL: "failure", Verdict.ERROR: "failure", Verdict.INCONCLUSIVE: "warning", Verdict.PASS: "notice"}
_NOWHERE = Location(".github")
"""Where a finding shows that no line of a file explains."""


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """What a check run says; `annotations` are in the form of GitHub's API."""

    conclusion: str
    title: str
    summary: str
    text: str
    annotations: tuple[dict[str, Any], ...]


def name_of(number: int, title: str) -> str:
    """A check run's name. It starts with the tool's: another workflow's checks stand beside it."""
    return f"vllm-gate / {f'{number} ' if number else ''}{title}"


def check_output(gate: GateResult, *, fail_on: str, workspace: str = "") -> CheckOutput:
    """The output of one gate. Paths below `workspace` become relative to it, as GitHub wants them."""
    loud = [finding for finding in _by_weight(gate) if finding.verdict is not Verdict.PASS or finding.warning]
    annotations = tuple(_annotation(finding, workspace) for finding in loud[:ANNOTATIONS_LIMIT])
    left_out = len(loud) - len(annotations)
    summary = [markdown(gist(gate)[:_CELL_LIMIT]), _table(gate)]
    if left_out:
        summary.insert(1, f"{left_out:,} of {len(loud):,} annotations are left out here; report.json holds all.")
    return CheckOutput(
        conclusion=_conclusion(gate.verdict, fail_on),
        title=cut_bytes(f"{gate.verdict.value}: {printable(gist(gate), one_line=True)}", TITLE_LIMIT),
        summary=whole_blocks(summary, TEXT_LIMIT, ""),
        text=whole_blocks(map(finding_block, loud), TEXT_LIMIT, "*Cut here: report.json holds the rest.*"),
        annotations=annotations,
    )


def _conclusion(verdict: Verdict, fail_on: str) -> str:
    """`fail_on` as in `--fail-on`: what does not make the run fail is neutral, so that no required check blocks."""
    if verdict in (Verdict.PASS, Verdict.SKIPPED):
        return {Verdict.PASS: "success", Verdict.SKIPPED: "skipped"}[verdict]
    blocking = {"never": (), "fail": (Verdict.FAIL,)}.get(fail_on, (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE))
    return "failure" if verdict in blocking else "neutral"


def _by_weight(gate: GateResult) -> Iterator[Finding]:
    """Failures first."""
    for verdict in _ORDER:
        yield from (finding for finding in gate.findings if finding.verdict is verdict)


def _table(gate: GateResult) -> str:
    """The checks, as many as fit."""
    rows = ["| | check | finding |", "|---|---|---|"]
    room = _TABLE_LIMIT
    for shown, finding in enumerate(_by_weight(gate)):
        message = table_cell(finding.message[:_CELL_LIMIT])
        rows.append(f"| {MARKS[finding.verdict]} | {table_cell(finding.check[:_CELL_LIMIT])} | {message} |")
        room -= len(rows[-1].encode())
        if room < 0:
            rows[-1] = f"| | | {len(gate.findings) - shown:,} more in report.json |"
            break
    return "\n".join(rows) if gate.findings else ""


def _annotation(finding: Finding, workspace: str) -> dict[str, Any]:
    at = finding.location or _NOWHERE
    details = "\n\n".join(f"{evidence.title}:\n{evidence.text}" for evidence in finding.evidence)
    words = (finding.message, finding.warning, finding.remedy and f"What to do: {finding.remedy}")
    annotation: dict[str, Any] = {
        "path": _relative(at.path, workspace),
        "start_line": at.line,
        "end_line": at.line,
        "annotation_level": _LEVELS[finding.verdict] if not finding.warning else "warning",
        "title": printable(finding.check, one_line=True)[:TITLE_LIMIT],
        "message": cut_bytes(printable("\n".join(filter(None, words))), MESSAGE_LIMIT),
    }
    if at.column:
        annotation |= {"start_column": at.column, "end_column": at.column}
    if details:
        annotation["raw_details"] = cut_bytes(printable(details), MESSAGE_LIMIT)
    return annotation


def _relative(path: str, workspace: str) -> str:
    """`path` from the repository's root. One outside of it keeps its name alone: GitHub refuses absolute paths."""
    if not posixpath.isabs(path):
        inside = posixpath.normpath(path)
    else:
        inside = posixpath.relpath(path, workspace) if workspace else ".."
    outside = inside.startswith("..")
    return (posixpath.basename(path) if outside else inside) or _NOWHERE.path
