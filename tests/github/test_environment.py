"""Where check runs go, and whether a candidate is only proposed, for every event that users gate on."""

import json
from pathlib import Path
from typing import Any

import pytest

from vllm_gate.errors import UsageError
from vllm_gate.github.environment import Run, read_run

SHA, HEAD = "a" * 40, "b" * 40
PULL_REQUEST = {"pull_request": {"number": 7, "head": {"sha": HEAD}, "base": {"sha": "c" * 40}}}


def read(tmp_path: Path, event: str, payload: dict[str, Any], **more: str) -> Run:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(payload))
    return read_run(
        {
            "GITHUB_REPOSITORY": "org/deploy",
            "GITHUB_SHA": SHA,
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(file),
            "GITHUB_RUN_ID": "42",
            "GITHUB_RUN_ATTEMPT": "3",
            **more,
        }
    )


@pytest.mark.parametrize(
    ("event", "payload", "head", "proposed"),
    [
        ("push", {"after": SHA}, SHA, False),
        ("pull_request", PULL_REQUEST, HEAD, True),
        ("pull_request_target", PULL_REQUEST, HEAD, True),
        ("pull_request_review", PULL_REQUEST, HEAD, True),
        ("merge_group", {"merge_group": {"head_sha": HEAD}}, HEAD, True),
        ("workflow_dispatch", {}, SHA, False),
        ("schedule", {}, SHA, False),
        ("release", {"release": {"tag_name": "v1"}}, SHA, False),
        ("deployment", {"deployment": {"sha": HEAD}}, HEAD, False),
        ("deployment_status", {"deployment": {"sha": HEAD}}, HEAD, False),
        ("workflow_run", {"workflow_run": {"event": "push", "head_sha": HEAD, "pull_requests": []}}, HEAD, False),
        (
            "workflow_run",
            {"workflow_run": {"event": "pull_request", "head_sha": SHA, "pull_requests": [{"head": {"sha": HEAD}}]}},
            HEAD,
            True,
        ),
        ("issue_comment", {"issue": {"number": 7, "pull_request": {"url": "…"}}}, SHA, True),
        ("issue_comment", {"issue": {"number": 7}}, SHA, False),
        ("pull_request", {}, SHA, True),
    ],
)
def test_the_commit_that_people_look_at(
    tmp_path: Path, event: str, payload: dict[str, Any], head: str, proposed: bool
) -> None:
    run = read(tmp_path, event, payload)
    assert (run.head_sha, run.sha, run.proposes) == (head, SHA, proposed)


def test_a_comment_names_the_pull_request_whose_head_must_be_asked_for(tmp_path: Path) -> None:
    assert read(tmp_path, "issue_comment", {"issue": {"number": 7, "pull_request": {}}}).commented_pull_request == 7
    assert read(tmp_path, "issue_comment", {"issue": {"number": 7}}).commented_pull_request is None
    assert read(tmp_path, "push", {}).commented_pull_request is None


def test_the_addresses_of_an_enterprise_server(tmp_path: Path) -> None:
    servers = {"GITHUB_API_URL": "https://ghe.corp/api/v3", "GITHUB_SERVER_URL": "https://ghe.corp"}
    run = read(tmp_path, "push", {"repository": {"default_branch": "trunk"}}, **servers)
    assert run.api_url == "https://ghe.corp/api/v3"
    assert run.url == "https://ghe.corp/org/deploy/actions/runs/42/attempts/3"
    assert (run.default_branch, run.correlation_id) == ("trunk", "vllm-gate-42-3")


def test_an_input_overrides_the_event() -> None:
    environ = {
        "GITHUB_REPOSITORY": "org/deploy",
        "GITHUB_SHA": SHA,
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_RUN_ID": "1",
    }
    assert read_run(environ, head_sha="d" * 40).head_sha == "d" * 40


def test_outside_of_actions_it_says_so() -> None:
    with pytest.raises(UsageError, match="GITHUB_RUN_ID") as refused:
        read_run({"GITHUB_REPOSITORY": "org/deploy", "GITHUB_SHA": SHA, "GITHUB_EVENT_NAME": "push"})
    assert "vllm-gate run" in refused.value.hint


@pytest.mark.parametrize("content", ["{", "\x00"])
def test_an_event_file_that_is_no_json_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "event.json"
    file.write_text(content)
    environ = {
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_SHA": SHA,
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_RUN_ID": "1",
        "GITHUB_EVENT_PATH": str(file),
    }
    with pytest.raises(UsageError, match=r"event\.json"):
        read_run(environ)
