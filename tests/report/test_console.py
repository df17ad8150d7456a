"""The console report says what is wrong, by how much, where, and what to do; hostile text steers nothing."""

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding, Interval, Location
from vllm_gate.core.report import Decision, GateResult, Report
from vllm_gate.core.verdict import Verdict
from vllm_gate.report.console import to_text


def report(*findings: Finding, skipped: str = "", decision: Decision | None = None) -> Report:
    gate = GateResult(gate="g", number=3, title="golden prompts", findings=findings, skipped=skipped, duration_s=0.42)
    return Report(tool_version="1", started_at="", duration_s=1, gates=(gate,), decision=decision, notes=("seed 7",))


FAILURE = Finding(
    check="deterministic_probe",
    verdict=Verdict.FAIL,
    message="16 × token id 0, the argmax of NaN logits",
    symptom="nan_argmax",
    measured=0.0,
    threshold=1.0,
    unit="pass rate",
    samples=8,
    interval=Interval(0.0, 0.369),
    location=Location("settings.json", 19, 7),
    evidence=(Evidence(EvidenceKind.RESPONSE, "answer", "\n".join(str(i) for i in range(9))),),
    remedy="roll back",
)


def test_a_failure_shows_message_numbers_place_evidence_and_remedy() -> None:
    text = to_text(report(FAILURE))
    assert text.startswith("✗ BLOCKED")
    assert "✗ deterministic_probe: 16 × token id 0, the argmax of NaN logits" in text
    assert "0 pass rate, (95% interval 0 to 0.369), limit 1, n = 8" in text
    assert "settings.json:19:7" in text
    assert "… 3 more lines in report.json" in text
    assert "roll back" in text


def test_a_pass_is_short_and_names_its_checks() -> None:
    text = to_text(report(Finding(check="ready_endpoint", verdict=Verdict.PASS, message="serves m")))
    assert text.startswith("✓ PASS")
    assert "✓ ready_endpoint  serves m" in text
    assert "0.4 s" in text


def test_a_warning_on_a_pass_is_seen() -> None:
    warned = Finding(check="c", verdict=Verdict.PASS, message="fine", warning="no log was configured")
    assert "no log was configured" in to_text(report(warned))


def test_not_judged_is_not_called_blocked() -> None:
    unclear = Finding(check="c", verdict=Verdict.INCONCLUSIVE, message="too few prompts")
    assert to_text(report(unclear)).startswith("? NOT JUDGED")
    broken = Finding(check="c", verdict=Verdict.ERROR, message="no answer")
    assert to_text(report(broken)).startswith("! NOT JUDGED")


def test_a_skipped_gate_says_why() -> None:
    assert "switched off in settings.json:3" in to_text(report(skipped="switched off in settings.json:3"))


def test_the_decision_to_roll_back_is_told_with_its_reason() -> None:
    decided = Decision(matched=("gate_3_failed",), reason="gate 3 failed", action="dispatch")
    assert "rollback: dispatch — gate 3 failed" in to_text(report(FAILURE, decision=decided))


def test_model_text_can_not_steer_the_terminal_or_the_markup() -> None:
    hostile = Finding(check="c", verdict=Verdict.FAIL, message="[red]\x1b[2Jx[/red]", remedy="[bold]do[/bold] \x07")
    text = to_text(report(hostile))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]\\x1b[2Jx[/red]" in text
    assert "[bold]do[/bold]" in text


def test_colour_is_only_for_those_who_ask() -> None:
    assert "\x1b[" in to_text(report(FAILURE), color=True)
    assert "\x1b[" not in to_text(report(FAILURE))
