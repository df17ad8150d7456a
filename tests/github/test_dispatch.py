"""A rollback is dispatched once, found again, and not lost to a detail of the server or of the workflow."""

from __future__ import annotations

import json
import time

import pytest
from tests.github.stand_in import Start

from vllm_gate.core.secret import Secret
from vllm_gate.github.api import GitHubApi
from vllm_gate.github.dispatch import INPUT_LIMIT, Dispatched, dispatch
from vllm_gate.github.errors import Denied, Invalid
from vllm_gate.simulator.github import GitHubStandIn, Workflow

ID = "vllm-gate-42-1"


def start(github: GitHubStandIn, correlation_id: str = ID, **inputs: str) -> Dispatched:
    api = GitHubApi(
        github.url, "org/deploy", Secret("ghs_0123456789"), now=time.monotonic, utc=time.time, sleep=lambda _: None
    )
    return dispatch(
        api,
        workflow="rollback.yml",
        ref="main",
        inputs=inputs or {"reason": "nan"},
        correlation_id=correlation_id,
        sleep=lambda _: None,
    )


def test_the_answer_tells_the_run(github: Start) -> None:
    stand_in = github()
    assert start(stand_in) == Dispatched("https://github.com/org/deploy/actions/runs/1")
    (run,) = stand_in.runs
    assert (run["display_title"], run["head_branch"]) == (f"rollback {ID}", "main")


def test_the_same_attempt_dispatches_once(github: Start) -> None:
    stand_in = github()
    start(stand_in)
    assert start(stand_in) == Dispatched("https://github.com/org/deploy/actions/runs/1", already=True)
    assert len(stand_in.runs) == 1


def test_another_attempt_is_another_rollback_even_if_its_number_begins_alike(github: Start) -> None:
    stand_in = github()
    start(stand_in, "vllm-gate-42-10")
    assert not start(stand_in, "vllm-gate-42-1").already
    assert len(stand_in.runs) == 2


def test_an_enterprise_server_answers_without_the_run_which_is_then_found(github: Start) -> None:
    stand_in = github(run_details=False, prefix="/api/v3")
    assert start(stand_in).run_url == "https://github.com/org/deploy/actions/runs/1"
    assert len(stand_in.runs) == 1


def test_a_run_that_does_not_show_the_id_is_dispatched_and_not_found(github: Start) -> None:
    stand_in = github(run_details=False, workflows={"rollback.yml": Workflow(run_name="rollback")})
    assert start(stand_in) == Dispatched("")


def test_inputs_that_the_workflow_does_not_declare_are_left_out(github: Start) -> None:
    stand_in = github(workflows={"rollback.yml": Workflow(inputs=("reason", "correlation_id"))})
    assert start(stand_in, reason="nan", sha="a", model="m").left_out == ("sha", "model")
    sent = [json.loads(exchange.body) for exchange in stand_in.exchanges if exchange.method == "POST"]
    assert sent[-1]["inputs"] == {"reason": "nan", "correlation_id": ID}


def test_both_at_once(github: Start) -> None:
    stand_in = github(run_details=False, workflows={"rollback.yml": Workflow(inputs=("correlation_id",))})
    assert start(stand_in).left_out == ("reason",)


def test_an_answer_that_was_lost_is_looked_up_and_not_repeated(github: Start) -> None:
    stand_in = github(trouble="lost_answer_once")
    assert start(stand_in).run_url.endswith("/1")
    assert len(stand_in.runs) == 1


def test_a_long_reason_is_cut(github: Start) -> None:
    stand_in = github()
    start(stand_in, reason="x" * 100_000)
    sent = [json.loads(exchange.body) for exchange in stand_in.exchanges if exchange.method == "POST"]
    assert len(sent[0]["inputs"]["reason"]) == INPUT_LIMIT


def test_a_missing_workflow_says_so(github: Start) -> None:
    with pytest.raises(Denied, match=r"rollback\.yml.*404"):
        start(github(workflows={}))


def test_a_workflow_that_can_not_be_dispatched_says_so(github: Start) -> None:
    with pytest.raises(Invalid, match="workflow_dispatch"):
        start(github(workflows={"rollback.yml": Workflow(dispatchable=False)}))


def test_a_token_that_may_not_says_which_permission_is_missing(github: Start) -> None:
    with pytest.raises(Denied) as denied:
        start(github(trouble="fork_token"))
    assert "actions: write" in denied.value.hint
