"""From findings to check runs, over the wire: many findings, hostile text, gates that were never asked."""

from __future__ import annotations

import time
from typing import Any

import pytest
from markdown_it import MarkdownIt
from tests.github.stand_in import Start, github

from vllm_gate.app.check_observer import CheckObserver
from vllm_gate.core.finding import Evidence, EvidenceKind, Finding, Location
from vllm_gate.core.report import GateResult
from vllm_gate.core.secret import Redactor, Secret
from vllm_gate.core.verdict import Verdict
from vllm_gate.github.api import GitHubApi
from vllm_gate.github.checks import CheckRuns
from vllm_gate.simulator.github import GitHubStandIn

__all__ = ["github"]
HOSTILE = (
    "::set-output name=verdict::pass ##[error]x\n| a | b |\n|---|---|\n```\n<img src=x> @org/team #12 \x1b[2J\ud800\0"
)


def observe(stand_in: GitHubStandIn, *findings: Finding, secret: str = "sk-planted0123") -> CheckRuns:
    api = GitHubApi(
        stand_in.url, "org/deploy", Secret("ghs_0123456789"), now=time.monotonic, utc=time.time, sleep=lambda _: None
    )
    runs = CheckRuns(
        api,
        head_sha="b" * 40,
        details_url="https://github.com/org/deploy/actions/runs/42",
        external_id="42/1",
        utc=lambda: "2026-01-02T03:04:05Z",
        now=time.monotonic,
        sleep=lambda _: None,
    )
    observer = CheckObserver(runs, fail_on="inconclusive", workspace="/w", mask=Redactor([Secret(secret)]))
    runs.open("g", "vllm-gate / 3 golden prompts")
    observer.gate_finished(GateResult(gate="g", number=3, title="golden prompts", findings=findings))
    return runs


def finding(**more: Any) -> Finding:
    return Finding(**{"check": "probe", "verdict": Verdict.FAIL, "message": "wrong", "remedy": "roll back"} | more)


@pytest.mark.parametrize(("count", "sent"), [(50, 50), (51, 51), (500, 500), (5_000, 500)])
def test_many_findings_reach_github_within_its_limits(github: Start, count: int, sent: int) -> None:
    stand_in = github()
    at = [Location("settings.json", line + 1, 7) for line in range(count)]
    runs = observe(stand_in, *(finding(message="é" * 3_000, location=place) for place in at))
    assert runs.degraded == ""
    assert len(stand_in.annotations[1]) == sent
    assert stand_in.check_runs[1]["conclusion"] == "failure"


def test_failures_are_among_those_that_are_sent(github: Start) -> None:
    stand_in = github()
    unsure = [finding(verdict=Verdict.INCONCLUSIVE, location=Location("a", line)) for line in range(1, 700)]
    observe(stand_in, *unsure, finding(message="the fault", location=Location("a", 700)))
    assert stand_in.annotations[1][0]["message"].startswith("the fault")


def test_hostile_text_becomes_no_table_image_or_mention(github: Start) -> None:
    stand_in = github()
    evidence = (Evidence(EvidenceKind.RESPONSE, HOSTILE, HOSTILE),)
    runs = observe(stand_in, finding(message=HOSTILE, check="probe", evidence=evidence, remedy=HOSTILE))
    assert runs.degraded == ""
    said = stand_in.check_runs[1]["output"]
    for page in map(MarkdownIt("gfm-like", {"linkify": False}).render, (said["summary"], said["text"])):
        assert "<img" not in page
        assert page.count("<table>") <= 1  # the summary's own
        assert "@org" not in page.partition("<pre>")[0]
    assert "\x1b" not in str(stand_in.annotations[1])
    assert "\0" not in str(stand_in.annotations[1])


def test_no_key_reaches_a_check_run(github: Start) -> None:
    stand_in = github()
    observe(stand_in, finding(message="refused: sk-planted0123"))
    assert b"sk-planted0123" not in b"".join(exchange.body for exchange in stand_in.exchanges)


def test_one_bad_annotation_costs_no_verdict_and_the_caller_hears_of_it(github: Start) -> None:
    stand_in = github(trouble="reject_annotations")
    runs = observe(stand_in, *(finding(location=Location("a", line)) for line in range(1, 120)))
    assert "annotations were refused" in runs.degraded
    made = stand_in.check_runs[1]
    assert (made["conclusion"], "roll back" in made["output"]["text"]) == ("failure", True)
