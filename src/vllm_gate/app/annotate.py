"""Findings and configuration problems as annotations of the workflow run, where no check run can hold them."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_gate.config.diagnostic import Diagnostic
from vllm_gate.core.report import Report
from vllm_gate.core.verdict import Verdict
from vllm_gate.github.commands import ANNOTATIONS_A_LEVEL, WorkflowCommands

_LEVELS = {Verdict.FAIL: "error", Verdict.ERROR: "error", Verdict.INCONCLUSIVE: "warning"}


def annotate_report(report: Report, commands: WorkflowCommands) -> None:
    """Failures first; no more than the runner records, which would drop the rest without a word."""
    left = {"error": ANNOTATIONS_A_LEVEL, "warning": ANNOTATIONS_A_LEVEL}
    for verdict, level in _LEVELS.items():
        for gate in report.gates:
            for finding in gate.findings:
                if finding.verdict is verdict and left[level]:
                    left[level] -= 1
                    title = f"vllm-gate: {gate.title}: {finding.check}"
                    text = "\n".join(filter(None, (finding.message, finding.remedy)))
                    commands.annotate(level, text, title=title, at=finding.location)


def annotate_diagnostics(diagnostics: Iterable[Diagnostic], commands: WorkflowCommands) -> None:
    """Each problem on its line."""
    for diagnostic in diagnostics:
        level = "warning" if diagnostic.warning else "error"
        commands.annotate(level, diagnostic.message, title=f"vllm-gate: {diagnostic.key}", at=diagnostic.location)
