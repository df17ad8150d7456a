"""The job summary: the verdict first, one table, what failed with its evidence, below the runner's limit."""

from typing import Any

from markdown_it import MarkdownIt

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding, Interval, Location
from vllm_gate.core.report import Decision, GateResult, Report, Rollback, ServiceFacts
from vllm_gate.core.verdict import Verdict
from vllm_gate.report.summary import to_markdown

FAILURE = Finding(
    check="logit_drift",
    verdict=Verdict.FAIL,
    message="drift is above the tolerance",
    measured=0.0312,
    threshold=0.02,
    unit="mean TV",
    samples=2048,
    interval=Interval(0.0289, 0.0331),
    location=Location("settings.json", 12, 5),
    evidence=(Evidence(EvidenceKind.NOTE, "by position", "\n".join(map(str, range(20)))),),
    remedy="compare with TP=1",
)
GATE = GateResult(gate="g", number=2, title="numerical", findings=(FAILURE,), duration_s=3.21)


def report(**more: Any) -> Report:
    given: dict[str, Any] = {"tool_version": "1", "started_at": "", "duration_s": 1, "gates": (GATE,)} | more
    return Report(**given)


def test_verdict_table_and_failure() -> None:
    service = ServiceFacts(name="under_test", base_url="http://x", model="qwen|27b", version="0.25.1")
    text = to_markdown(report(services=(service,)), limit=10_000)
    assert text.startswith("## ❌ vllm-gate: blocked: this release must not reach users\n\n- under\\_test: qwen\\|27b")
    assert "| 2 numerical | ❌ fail | drift is above the tolerance | 3.2 |" in text
    assert "measured 0.0312 mean TV, 95% interval 0.0289 to 0.0331, limit 0.02, n = 2,048" in text
    assert "at settings.json:12:5" in text
    assert "**What to do:** compare with TP=1" in text
    assert "… 8 more lines in report.json" in text


def test_it_is_a_table_for_a_markdown_reader() -> None:
    html = MarkdownIt("gfm-like", {"linkify": False}).render(to_markdown(report(), limit=10_000))
    assert html.count("<tr>") == 2
    assert "<h2>" in html


def test_the_rollback_is_told_with_its_outcome() -> None:
    decision = Decision(matched=("gate_2_logit_drift_exceeded",), reason="drift", action="dispatch")
    done = Rollback(correlation_id="vllm-gate-1-1", dispatched=True, run_url="https://github.com/o/r/actions/runs/5")
    text = to_markdown(report(decision=decision, rollback=done), limit=10_000)
    assert "**Rollback: dispatch.** drift" in text
    assert "[its run](https://github.com/o/r/actions/runs/5); correlation id `vllm-gate-1-1`" in text
    failed = Rollback(correlation_id="x", error="HTTP 403", webhook="the webhook answered HTTP 500")
    text = to_markdown(report(decision=decision, rollback=failed), limit=10_000)
    assert "❌ **It could not be dispatched:** HTTP 403" in text
    assert "Webhook: the webhook answered HTTP 500" in text


def test_without_a_matching_condition_nothing_is_said_of_rollbacks() -> None:
    decision = Decision(matched=(), reason="no rollback condition matched", action="none")
    assert "Rollback" not in to_markdown(report(decision=decision), limit=10_000)


def test_a_summary_over_1_mib_is_cut_between_blocks_and_says_so() -> None:
    gate = GateResult(gate="g", number=2, title="numerical", findings=(FAILURE,) * 20_000)
    text = to_markdown(report(gates=(gate,)), limit=1_000_000)
    assert 900_000 < len(text.encode()) <= 1_000_000
    assert text.rstrip().endswith("*Cut here: report.json holds the rest.*")
    assert text.count("```") % 2 == 0


def test_warnings_of_passing_checks_are_listed() -> None:
    odd = Finding(check="speed", verdict=Verdict.PASS, message="ok", warning="enforce-eager costs speed")
    gate = GateResult(gate="g", number=1, title="model load", findings=(odd,))
    assert "- **model load, speed:** enforce-eager costs speed" in to_markdown(report(gates=(gate,)), limit=10_000)
