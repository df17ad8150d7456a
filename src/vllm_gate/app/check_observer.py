"""Keeps a gate's check run in step with the run."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_gate.app.observers import Quiet
from vllm_gate.core.redact import redact
from vllm_gate.core.report import GateResult, Report
from vllm_gate.core.secret import Redactor
from vllm_gate.gates.interface import Gate
from vllm_gate.github.checks import CheckRuns
from vllm_gate.report.check_run import check_output, name_of


class CheckObserver(Quiet):
    """Opens a check run a gate, completes it with what the gate found, and leaves none open."""

    def __init__(self, checks: CheckRuns, *, fail_on: str, workspace: str, mask: Redactor) -> None:
        self._checks = checks
        self._fail_on, self._workspace, self._mask = fail_on, workspace, mask

    def run_started(self, gates: Sequence[Gate]) -> None:
        """See `Observer`."""
        for gate in gates:
            self._checks.open(gate.key, name_of(gate.number, gate.title))

    def gate_finished(self, result: GateResult) -> None:
        """See `Observer`."""
        said = check_output(redact(result, self._mask), fail_on=self._fail_on, workspace=self._workspace)
        self._checks.complete(
            result.gate,
            conclusion=said.conclusion,
            output={"title": said.title, "summary": said.summary, "text": said.text},
            annotations=said.annotations,
        )

    def run_finished(self, report: Report) -> None:
        """See `Observer`. A gate that was skipped on the way has not been told yet."""
        for gate in report.gates:
            if gate.skipped:
                self.gate_finished(gate)
        self._checks.close("the run ended without asking this gate", conclusion="neutral")

    def run_aborted(self, why: str) -> None:
        """See `Observer`."""
        self._checks.close(why or "the run was aborted")
