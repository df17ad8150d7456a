"""A gate as a check run, within each of GitHub's limits. Numbers are GitHub's, not the module's."""

from typing import Any

import pytest

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding, Location
from vllm_gate.core.report import GateResult
from vllm_gate.core.verdict import Verdict
from vllm_gate.report.check_run import check_output, name_of


def finding(verdict: Verdict = Verdict.FAIL, **more: Any) -> Finding:
    given: dict[str, Any] = {"check": "probe", "message": "wrong", "remedy": "roll back"} | more
    return Finding(verdict=verdict, **given)


def gate(*findings: Finding, skipped: str = "") -> GateResult:
    return GateResult(gate="g", number=3, title="golden prompts", findings=findings, skipped=skipped)


def test_a_failure_stands_on_its_line_with_its_evidence() -> None:
    evidence = (Evidence(EvidenceKind.RESPONSE, "what came back", "!!!!"),)
    said = check_output(gate(finding(location=Location("settings.json", 19, 7), evidence=evidence)), fail_on="fail")
    assert (said.conclusion, said.title) == ("failure", "fail: wrong")
    (annotation,) = said.annotations
    assert annotation == {
        "path": "settings.json",
        "start_line": 19,
        "end_line": 19,
        "start_column": 7,
        "end_column": 7,
        "annotation_level": "failure",
        "title": "probe",
        "message": "wrong\nWhat to do: roll back",
        "raw_details": "what came back:\n!!!!",
    }
    assert "roll back" in said.text


@pytest.mark.parametrize(
    ("verdict", "fail_on", "conclusion"),
    [
        (Verdict.PASS, "inconclusive", "success"),
        (Verdict.FAIL, "inconclusive", "failure"),
        (Verdict.FAIL, "fail", "failure"),
        (Verdict.FAIL, "never", "neutral"),
        (Verdict.INCONCLUSIVE, "inconclusive", "failure"),
        (Verdict.INCONCLUSIVE, "fail", "neutral"),
        (Verdict.ERROR, "inconclusive", "failure"),
        (Verdict.ERROR, "fail", "neutral"),
        (Verdict.ERROR, "never", "neutral"),
    ],
)
def test_the_conclusion_follows_the_exit_code(verdict: Verdict, fail_on: str, conclusion: str) -> None:
    assert check_output(gate(finding(verdict)), fail_on=fail_on).conclusion == conclusion


def test_a_skipped_gate_is_skipped_and_says_why() -> None:
    said = check_output(gate(skipped="the server never became ready"), fail_on="inconclusive")
    assert (said.conclusion, said.title, said.annotations) == ("skipped", "skipped: the server never became ready", ())


def test_failures_come_first_and_warnings_count() -> None:
    findings = (
        finding(Verdict.PASS, check="fine"),
        finding(Verdict.PASS, check="odd", warning="looks different"),
        finding(Verdict.INCONCLUSIVE, check="unsure"),
        finding(Verdict.FAIL, check="broken"),
    )
    said = check_output(gate(*findings), fail_on="fail")
    assert [(note["title"], note["annotation_level"]) for note in said.annotations] == [
        ("broken", "failure"),
        ("unsure", "warning"),
        ("odd", "warning"),
    ]


@pytest.mark.parametrize("count", [51, 500, 5_000])
def test_however_many_findings_there_are_every_limit_holds(count: int) -> None:
    long = finding(
        message="ü" * 70_000,
        check="c" * 300,
        evidence=(Evidence(EvidenceKind.LOG, "log", "é" * 4_000),) * 20,
        location=Location("settings.json", 1, 1),
    )
    said = check_output(gate(*[long] * count), fail_on="fail")
    assert len(said.summary.encode()) <= 65_535
    assert len(said.text.encode()) <= 65_535
    assert len(said.title) <= 255
    for annotation in said.annotations:
        assert len(annotation["title"]) <= 255
        assert len(annotation["message"].encode()) <= 64 * 1024
        assert len(annotation["raw_details"].encode()) <= 64 * 1024
    assert len(said.annotations) == min(count, 500)
    assert ("4,500 of 5,000 annotations are left out" in said.summary) == (count == 5_000)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("settings.json", "settings.json"),
        ("./conf/../settings.json", "settings.json"),
        ("/github/workspace/conf/settings.json", "conf/settings.json"),
        ("/var/log/vllm.log", "vllm.log"),
        ("../outside.log", "outside.log"),
        ("/github/workspace", "."),
    ],
)
def test_paths_are_relative_to_the_repository(path: str, shown: str) -> None:
    said = check_output(gate(finding(location=Location(path, 3))), fail_on="fail", workspace="/github/workspace")
    assert said.annotations[0]["path"] == shown


def test_a_finding_without_a_place_is_annotated_all_the_same() -> None:
    (annotation,) = check_output(gate(finding()), fail_on="fail").annotations
    assert (annotation["path"], annotation["start_line"]) == (".github", 1)


def test_hostile_text_is_escaped_in_markdown() -> None:
    said = check_output(gate(finding(message="<img src=x> | ![](http://x) @org")), fail_on="fail")
    assert "<img" not in said.summary + said.text
    assert "@org" not in said.summary + said.text


def test_a_check_run_names_its_tool_and_its_gate() -> None:
    assert name_of(1, "model load") == "vllm-gate / 1 model load"
    assert name_of(0, "execution path") == "vllm-gate / execution path"
