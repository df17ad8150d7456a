"""A gate's and a run's verdict follow from the findings alone."""

import pytest

from vllm_gate.core.finding import Finding
from vllm_gate.core.report import GateResult, Report
from vllm_gate.core.verdict import Verdict


def gate(name: str, *verdicts: Verdict, skipped: str = "") -> GateResult:
    findings = tuple(Finding(check=f"c{i}", verdict=v, message="m", remedy="r") for i, v in enumerate(verdicts))
    return GateResult(gate=name, number=1, title=name, findings=findings, skipped=skipped)


def report(*gates: GateResult) -> Report:
    return Report(tool_version="1", started_at="2026-01-01T00:00:00Z", duration_s=1.0, gates=gates)


def test_an_enabled_gate_that_answered_no_check_is_an_error() -> None:
    assert gate("empty").verdict is Verdict.ERROR


def test_a_skipped_gate_counts_for_nothing() -> None:
    assert report(gate("a", Verdict.PASS), gate("b", skipped="switched off")).verdict is Verdict.PASS


def test_a_run_in_which_every_gate_was_skipped_is_an_error() -> None:
    assert report(gate("a", skipped="off")).verdict is Verdict.ERROR
    assert report().verdict is Verdict.ERROR


def test_a_failure_shows_beside_a_crashed_gate() -> None:
    whole = report(gate("a", Verdict.ERROR), gate("b", Verdict.PASS, Verdict.FAIL))
    assert whole.verdict is Verdict.FAIL
    assert whole.failed_gates == ("b",)


def test_a_skipped_gate_can_hold_no_findings() -> None:
    with pytest.raises(ValueError, match="skipped"):
        gate("a", Verdict.PASS, skipped="off")
