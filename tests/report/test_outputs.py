"""The action's outputs."""

import json

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.report import Decision, GateResult, Report, Rollback
from vllm_gate.core.verdict import Verdict
from vllm_gate.report.outputs import outputs


def report(findings: int = 1) -> Report:
    failure = Finding(
        check="c",
        verdict=Verdict.FAIL,
        message="m",
        remedy="r",
        evidence=(Evidence(EvidenceKind.LOG, "l", "x" * 3_000),),
    )
    return Report(
        tool_version="1",
        started_at="",
        duration_s=1,
        gates=(GateResult(gate="gate_3", number=3, title="t", findings=(failure,) * findings),),
        decision=Decision(matched=("a", "b"), reason="r", action="dispatch"),
        rollback=Rollback(correlation_id="x", dispatched=True, run_url="https://u"),
    )


def test_what_later_steps_can_use() -> None:
    told = outputs(report(), report_path="d/report.json", check_urls=("https://1", "https://2"))
    short = json.loads(told.pop("report-json"))
    assert told == {
        "verdict": "fail",
        "failed-gates": "gate_3",
        "rollback-conditions": "a,b",
        "rollback-dispatched": "true",
        "rollback-run-url": "https://u",
        "check-urls": "https://1,https://2",
        "report-path": "d/report.json",
    }
    assert short["gates"][0]["findings"][0]["message"] == "m"
    assert "evidence" not in short["gates"][0]["findings"][0]


def test_a_report_too_long_for_an_output_keeps_its_verdicts() -> None:
    text = outputs(report(10_000), report_path="", check_urls=())["report-json"]
    assert len(text.encode()) < 1024 * 1024
    assert json.loads(text)["gates"][0]["verdict"] == "fail"


def test_nothing_decided_is_nothing_dispatched() -> None:
    bare = Report(tool_version="1", started_at="", duration_s=1, gates=())
    told = outputs(bare, report_path="", check_urls=())
    assert (told["verdict"], told["rollback-dispatched"], told["rollback-conditions"]) == ("error", "false", "")
