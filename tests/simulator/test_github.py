"""The GitHub stand-in holds the limits that GitHub's own description leaves out, and keeps state as GitHub does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from vllm_gate.simulator.github import GitHubStandIn, Workflow
from vllm_gate.simulator.github_limits import Refused

SHA = "a" * 40
CHECKS = "/repos/org/deploy/check-runs"
DISPATCHES = "/repos/org/deploy/actions/workflows/rollback.yml/dispatches"
NOTE = {"path": "a", "start_line": 1, "end_line": 1, "annotation_level": "failure", "message": "m"}


@pytest.fixture
def github() -> Iterator[GitHubStandIn]:
    """Asked without the wire: `answer` is what the wire would bring."""
    with GitHubStandIn() as stand_in:
        yield stand_in


def create(github: GitHubStandIn, **more: Any) -> Any:
    return github.answer("POST", CHECKS, {"name": "x", "head_sha": SHA, **more})[1]


def output(**more: Any) -> dict[str, Any]:
    return {"output": {"title": "t", "summary": "s", **more}}


@pytest.mark.parametrize(
    "body",
    [
        {"status": "completed"},
        output(summary="é" * 32_768),
        output(text="é" * 32_768),
        output(annotations=[NOTE] * 51),
        output(annotations=[{**NOTE, "path": ""}]),
        output(annotations=[{**NOTE, "path": "/github/workspace/a"}]),
        output(annotations=[{**NOTE, "start_line": 0}]),
        output(annotations=[{**NOTE, "end_line": 2, "start_column": 1, "end_column": 2}]),
        output(annotations=[{**NOTE, "start_column": 1}]),
        output(annotations=[{**NOTE, "title": "t" * 256}]),
        output(annotations=[{**NOTE, "message": "é" * 32_769}]),
        output(annotations=[{**NOTE, "raw_details": "é" * 32_769}]),
    ],
)
def test_what_is_over_a_limit_is_refused_and_changes_nothing(github: GitHubStandIn, body: dict[str, Any]) -> None:
    made = create(github)
    for method, path in (("POST", CHECKS), ("PATCH", f"{CHECKS}/{made['id']}")):
        with pytest.raises(Refused) as refused:
            github.answer(method, path, {"name": "x", "head_sha": SHA, **body})
        assert refused.value.status == 422
    assert (len(github.check_runs), github.annotations[1], github.open_check_runs()) == (1, [], ["x"])


@pytest.mark.parametrize(
    "body",
    [
        output(summary="é" * 32_767, text="a" * 65_535),
        output(annotations=[NOTE] * 50),
        output(annotations=[{**NOTE, "start_column": 1, "end_column": 2, "title": "é" * 255}]),
        output(annotations=[{**NOTE, "message": "a" * 65_536}]),
    ],
)
def test_what_is_just_within_is_taken(github: GitHubStandIn, body: dict[str, Any]) -> None:
    assert create(github, **body)["status"] == "queued"


def test_annotations_are_appended_and_a_conclusion_completes(github: GitHubStandIn) -> None:
    made = create(github, status="in_progress", **output(annotations=[NOTE]))
    github.answer("PATCH", f"{CHECKS}/{made['id']}", {"conclusion": "failure", **output(annotations=[NOTE])})
    _, listed = github.answer("GET", f"/repos/org/deploy/commits/{SHA}/check-runs?check_name=x", {})
    (run,) = listed["check_runs"]
    assert (run["status"], run["conclusion"], run["output"]["annotations_count"]) == ("completed", "failure", 2)


@pytest.mark.parametrize(("query", "ids"), [("", [2]), ("?filter=all", [1, 2]), ("?check_name=y", [])])
def test_of_one_name_the_latest_is_listed(github: GitHubStandIn, query: str, ids: list[int]) -> None:
    create(github)
    create(github)
    _, listed = github.answer("GET", f"/repos/org/deploy/commits/{SHA}/check-runs{query}", {})
    assert [run["id"] for run in listed["check_runs"]] == ids


def test_what_is_not_there_is_404(github: GitHubStandIn) -> None:
    for method, path in (("PATCH", f"{CHECKS}/9"), ("GET", "/repos/org/deploy/actions/workflows/no.yml/runs")):
        with pytest.raises(Refused) as refused:
            github.answer(method, path, {})
        assert refused.value.status == 404


@pytest.mark.parametrize(("run_details", "most"), [(True, 25), (False, 10)])
def test_a_dispatch_takes_so_many_inputs(github: GitHubStandIn, run_details: bool, most: int) -> None:
    github.run_details = run_details
    names = [f"i{number}" for number in range(most + 1)]
    github.workflows["rollback.yml"] = Workflow(inputs=tuple(names), run_name="r")
    body: dict[str, Any] = {"ref": "main", "inputs": dict.fromkeys(names, "")}
    with pytest.raises(Refused, match=f"more than {most}"):
        github.answer("POST", DISPATCHES, body)
    del body["inputs"]["i0"]
    assert github.answer("POST", DISPATCHES, body) == (204, None)


def test_an_enterprise_server_knows_no_run_details(github: GitHubStandIn) -> None:
    body = {"ref": "main", "return_run_details": True}
    status, answer = github.answer("POST", DISPATCHES, body)
    assert (status, answer["workflow_run_id"]) == (200, 1)
    github.run_details = False
    with pytest.raises(Refused, match="return_run_details"):
        github.answer("POST", DISPATCHES, body)


@pytest.mark.parametrize(
    ("query", "count"), [("", 2), ("?branch=main", 1), ("?event=push", 0), ("?event=workflow_dispatch&per_page=1", 1)]
)
def test_runs_are_listed_by_branch_and_event(github: GitHubStandIn, query: str, count: int) -> None:
    for ref in ("main", "release"):
        github.answer("POST", DISPATCHES, {"ref": ref})
    _, listed = github.answer("GET", f"/repos/org/deploy/actions/workflows/rollback.yml/runs{query}", {})
    assert len(listed["workflow_runs"]) == count
