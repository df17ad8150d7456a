"""Check runs are opened, completed and closed, whatever GitHub does, and nothing of it ever raises."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.github.stand_in import Start

from vllm_gate.core.secret import Secret
from vllm_gate.github.api import GitHubApi
from vllm_gate.github.checks import CheckRuns
from vllm_gate.github.errors import Unavailable
from vllm_gate.simulator.github import GitHubStandIn

OUTPUT = {"title": "t", "summary": "s", "text": "the numbers"}


def checks(github: GitHubStandIn, sleep: Callable[[float], None] = lambda _: None) -> CheckRuns:
    api = GitHubApi(
        github.url,
        "org/deploy",
        Secret("ghs_0123456789"),
        now=time.monotonic,
        utc=time.time,
        sleep=sleep,
        timeout_s=0.5,
    )
    return CheckRuns(
        api,
        head_sha="b" * 40,
        details_url="https://github.com/org/deploy/actions/runs/42/attempts/1",
        external_id="42/1",
        utc=lambda: "2026-01-02T03:04:05Z",
        now=time.monotonic,
        sleep=sleep,
    )


def notes(count: int) -> list[dict[str, Any]]:
    return [
        {
            "path": "settings.json",
            "start_line": 1,
            "end_line": 1,
            "annotation_level": "failure",
            "message": f"number {number}",
        }
        for number in range(count)
    ]


def complete(runs: CheckRuns, annotations: list[dict[str, Any]], conclusion: str = "failure") -> None:
    runs.complete("g", conclusion=conclusion, output=OUTPUT, annotations=annotations)


def test_from_in_progress_to_completed(github: Start) -> None:
    stand_in = github()
    runs = checks(stand_in)
    runs.open("g", "vllm-gate / 1 model load")
    assert stand_in.open_check_runs() == ["vllm-gate / 1 model load"]
    assert stand_in.check_runs[1]["external_id"] == "42/1/g"
    complete(runs, notes(1))
    made = stand_in.check_runs[1]
    assert (made["status"], made["conclusion"], made["output"]["text"]) == ("completed", "failure", "the numbers")
    assert (runs.urls, runs.degraded) == (("https://github.com/org/deploy/runs/1",), "")


@pytest.mark.parametrize(("count", "requests"), [(0, 1), (50, 1), (51, 2), (500, 10)])
def test_annotations_come_in_batches_and_the_conclusion_with_the_last(github: Start, count: int, requests: int) -> None:
    stand_in = github()
    runs = checks(stand_in)
    runs.open("g", "x")
    complete(runs, notes(count))
    updates = [exchange for exchange in stand_in.exchanges if exchange.method == "PATCH"]
    assert len(updates) == requests
    assert [b"conclusion" in update.body for update in updates] == [False] * (requests - 1) + [True]
    assert [note["message"] for note in stand_in.annotations[1]] == [f"number {n}" for n in range(count)]


def test_a_gate_that_is_told_twice_repeats_no_annotation(github: Start) -> None:
    stand_in = github()
    runs = checks(stand_in)
    runs.open("g", "x")
    complete(runs, notes(2), "success")
    complete(runs, notes(3), "failure")
    assert len(stand_in.annotations[1]) == 3
    assert stand_in.check_runs[1]["conclusion"] == "failure"


def test_refused_annotations_do_not_cost_the_verdict(github: Start) -> None:
    stand_in = github(trouble="reject_annotations")
    runs = checks(stand_in)
    runs.open("g", "x")
    complete(runs, notes(60))
    assert (stand_in.check_runs[1]["conclusion"], stand_in.annotations[1]) == ("failure", [])
    assert stand_in.check_runs[1]["output"]["text"] == "the numbers"
    assert "annotations were refused" in runs.degraded


@pytest.mark.parametrize(
    ("trouble", "word"),
    [
        ("fork_token", "checks: write"),
        ("personal_token", "personal access token"),
        ("reset", "no answer"),
        ("bad_gateway", "502"),
        ("secondary_limit", "secondary rate limit"),
    ],
)
def test_without_check_runs_the_run_goes_on_and_says_why(github: Start, trouble: str, word: str) -> None:
    stand_in = github(trouble=trouble)
    runs = checks(stand_in)
    for gate in ("g", "h"):
        runs.open(gate, gate)
    complete(runs, notes(1))
    runs.close("over")
    assert word in runs.degraded
    assert runs.urls == ()


@pytest.mark.parametrize("trouble", ["secondary_limit_once", "primary_limit_once"])
def test_a_rate_limit_is_waited_out(github: Start, trouble: str) -> None:
    slept: list[float] = []
    stand_in = github(trouble=trouble)
    runs = checks(stand_in, slept.append)
    runs.open("g", "x")
    assert (runs.degraded, len(stand_in.check_runs)) == ("", 1)
    assert 0 < slept[0] <= 60


def test_a_creation_whose_answer_was_lost_is_found_again(github: Start) -> None:
    stand_in = github(trouble="lost_answer_once")
    runs = checks(stand_in)
    runs.open("g", "x")
    complete(runs, [])
    assert len(stand_in.check_runs) == 1
    assert stand_in.open_check_runs() == []


def test_closing_leaves_none_open(github: Start) -> None:
    stand_in = github()
    runs = checks(stand_in)
    for gate in ("g", "h", "i"):
        runs.open(gate, gate)
    complete(runs, [])
    runs.close("interrupted by SIGTERM")
    assert stand_in.open_check_runs() == []
    assert [run["conclusion"] for run in stand_in.check_runs.values()] == ["failure", "cancelled", "cancelled"]
    assert stand_in.check_runs[2]["output"]["title"] == "interrupted by SIGTERM"


def test_closing_while_github_is_gone_says_so(github: Start) -> None:
    stand_in = github()
    runs = checks(stand_in)
    for gate in ("g", "h", "i"):
        runs.open(gate, gate)
    stand_in.trouble = "reset"
    runs.close("over")
    assert "no answer" in runs.degraded


def test_a_failure_that_github_did_not_hear_is_told_at_the_end(github: Start) -> None:
    stand_in = github()
    runs = checks(stand_in)
    runs.open("g", "x")
    stand_in.trouble = "bad_gateway"
    complete(runs, notes(2))
    stand_in.trouble = ""
    runs.close("the run ended without asking this gate", conclusion="neutral")
    made = stand_in.check_runs[1]
    assert (made["conclusion"], made["output"]["text"]) == ("failure", "the numbers")
    assert "502" in runs.degraded


def test_a_creation_that_was_never_answered_is_found_and_ended(github: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = github(trouble="lost_answer_once")
    runs = checks(stand_in)

    def unanswered(*_: Any, **__: Any) -> None:
        raise Unavailable("no answer")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(runs, "_find", unanswered)
        runs.open("g", "x")
    complete(runs, [])
    assert stand_in.open_check_runs() == ["x"]
    runs.close("over", conclusion="neutral")
    assert stand_in.check_runs[1]["conclusion"] == "failure"


def test_an_interruption_while_github_still_makes_the_check_run(github: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = github()
    late: list[dict[str, Any]] = []

    def make_it_late(_: float) -> None:
        stand_in.answer("POST", "/repos/org/deploy/check-runs", late.pop())

    runs = checks(stand_in, make_it_late)

    def interrupt(_: str, body: dict[str, Any], **__: Any) -> None:
        late.append(body)
        raise KeyboardInterrupt

    monkeypatch.setattr(runs._api, "post", interrupt)
    with pytest.raises(KeyboardInterrupt):
        runs.open("g", "x")
    runs.close("interrupted")
    assert stand_in.check_runs[1]["conclusion"] == "cancelled"


def test_closing_does_not_wait_for_a_server_that_is_silent(github: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = github()
    runs = checks(stand_in)
    for gate in ("g", "h", "i"):
        runs.open(gate, gate)
    monkeypatch.setattr("vllm_gate.github.checks.CLOSING_S", 0.2)
    stand_in.trouble = "slow"
    runs.close("interrupted")
    assert runs.degraded
    assert len(stand_in.open_check_runs()) == 3


def test_switched_off_nothing_is_sent() -> None:
    runs = CheckRuns(None, head_sha="b", details_url="", external_id="", utc=str, now=time.monotonic, sleep=time.sleep)
    runs.open("g", "x")
    complete(runs, notes(1))
    runs.close("over")
    assert runs.degraded == "check runs are switched off"
