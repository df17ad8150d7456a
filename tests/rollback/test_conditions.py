"""Which findings raise which condition, and when that means a rollback."""

import pytest

from vllm_gate.core.finding import Finding
from vllm_gate.core.report import Decision, GateResult, Report
from vllm_gate.core.verdict import Verdict
from vllm_gate.rollback.conditions import known_conditions, matched
from vllm_gate.rollback.decision import decide

CHECKS = {
    "gate_1_model_load": ("ready_endpoint", "weights_load"),
    "execution_path": ("kernel_fallback", "dtype_path"),
    "gate_2_numerical": ("logit_drift", "nan_inf"),
    "gate_3_golden_prompt": ("deterministic_probe",),
}
KNOWN = known_conditions(CHECKS)


def finding(check: str, verdict: Verdict) -> Finding:
    return Finding(check=check, verdict=verdict, message="16 × token id 0", remedy="roll back")


def report(**gates: list[Finding]) -> Report:
    results = tuple(
        GateResult(gate=gate, number=number, title=gate, findings=tuple(findings))
        for number, (gate, findings) in enumerate(gates.items())
    )
    return Report(tool_version="1", started_at="", duration_s=0, gates=results)


def names(of: Report, *wanted: str) -> list[str]:
    return [match.condition.name for match in matched(of, wanted, KNOWN)]


@pytest.mark.parametrize(
    ("condition", "gate", "check"),
    [
        ("gate_3_deterministic_probe_failed", "gate_3_golden_prompt", "deterministic_probe"),
        ("gate_2_logit_drift_exceeded", "gate_2_numerical", "logit_drift"),
        ("unexplained_kernel_fallback_detected", "execution_path", "kernel_fallback"),
        ("dtype_path_changed_without_approval", "execution_path", "dtype_path"),
        ("gate_1_failed", "gate_1_model_load", "weights_load"),
        ("gate_1_weights_load_failed", "gate_1_model_load", "weights_load"),
        ("execution_path_failed", "execution_path", "dtype_path"),
    ],
)
def test_a_condition_is_raised_by_its_failing_check_and_by_no_other_verdict(
    condition: str, gate: str, check: str
) -> None:
    assert names(report(**{gate: [finding(check, Verdict.FAIL)]}), condition) == [condition]
    for verdict in (Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.ERROR):
        assert names(report(**{gate: [finding(check, verdict)]}), condition) == []


def test_another_check_of_the_gate_raises_nothing() -> None:
    failing = report(gate_2_numerical=[finding("nan_inf", Verdict.FAIL)])
    assert names(failing, "gate_2_logit_drift_exceeded") == []
    assert names(failing, "gate_2_failed", "gate_2_nan_inf_failed") == ["gate_2_failed", "gate_2_nan_inf_failed"]


def test_the_condition_of_a_gate_that_does_not_exist_yet_is_known() -> None:
    assert KNOWN["gate_5_task_success_dropped"].gate == "gate_5_shadow_canary"


PROBE_FAILED = report(gate_3_golden_prompt=[finding("deterministic_probe", Verdict.FAIL)])


def decided(of: Report = PROBE_FAILED, **given: object) -> Decision:
    options: dict[str, object] = {"auto_rollback": True, "mode": "auto", **given}
    return decide(of, ["gate_3_deterministic_probe_failed"], KNOWN, **options)  # type: ignore[arg-type]


def test_a_match_is_dispatched_with_its_reason() -> None:
    decision = decided()
    assert decision.action == "dispatch"
    assert decision.matched == ("gate_3_deterministic_probe_failed",)
    assert "16 × token id 0" in decision.reason


def test_a_measured_failure_beside_a_crashed_gate_still_rolls_back() -> None:
    mixed = report(
        gate_2_numerical=[finding("logit_drift", Verdict.ERROR)],
        gate_3_golden_prompt=[finding("deterministic_probe", Verdict.FAIL)],
    )
    assert decided(mixed).action == "dispatch"


@pytest.mark.parametrize("verdict", [Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASS])
def test_what_was_not_measured_as_bad_never_rolls_back(verdict: Verdict) -> None:
    decision = decided(report(gate_3_golden_prompt=[finding("deterministic_probe", verdict)]))
    assert (decision.action, decision.matched) == ("none", ())


@pytest.mark.parametrize(
    ("given", "action"),
    [
        ({"auto_rollback": False}, "off"),
        ({"mode": "off"}, "off"),
        ({"mode": "dry-run"}, "dry-run"),
        ({"pull_request": True}, "not-on-this-event"),
        ({"pull_request": True, "on_pull_request": True}, "dispatch"),
    ],
)
def test_what_keeps_a_match_from_being_dispatched(given: dict[str, object], action: str) -> None:
    assert decided(PROBE_FAILED, **given).action == action
