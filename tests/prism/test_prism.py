"""What the client sends and the stand-in answers, judged by Prism in proxy mode against GitHub's own description."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from tests.github.contract import DESCRIPTION

from vllm_gate.core.secret import Secret
from vllm_gate.github.api import GitHubApi
from vllm_gate.github.checks import CheckRuns
from vllm_gate.github.contents import CommitFiles
from vllm_gate.github.dispatch import dispatch
from vllm_gate.simulator.github import GitHubStandIn

HEAD = "b" * 40
NOTE = {"path": "a", "start_line": 1, "end_line": 1, "annotation_level": "failure", "message": "m"}


@pytest.fixture(scope="module")
def github() -> Iterator[GitHubStandIn]:
    with GitHubStandIn(files={"main": {"conf/settings.json": b"{}"}}, heads={7: HEAD}) as stand_in:
        yield stand_in


@pytest.fixture(scope="module")
def prism(github: GitHubStandIn) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        os.environ["PRISM"],
        "proxy",
        str(DESCRIPTION),
        github.url,
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        "--errors",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
        process.terminate()


@pytest.fixture
def api(prism: str) -> GitHubApi:
    token = Secret("ghs_0123456789")
    return GitHubApi(prism, "org/deploy", token, now=time.monotonic, utc=time.time, sleep=lambda _: None)


def test_check_runs(api: GitHubApi, github: GitHubStandIn) -> None:
    runs = CheckRuns(
        api,
        head_sha=HEAD,
        details_url="https://github.com/org/deploy/actions/runs/1",
        external_id="1/1",
        utc=lambda: "2026-01-02T03:04:05Z",
        now=time.monotonic,
        sleep=time.sleep,
    )
    for key in ("g", "h"):
        runs.open(key, f"vllm-gate / {key}")
    output = {"title": "t", "summary": "s", "text": "x"}
    runs.complete("g", conclusion="failure", output=output, annotations=[NOTE | {"message": str(n)} for n in range(51)])
    runs.close("cancelled")
    assert runs.degraded == ""
    assert [run["conclusion"] for run in github.check_runs.values()] == ["failure", "cancelled"]
    assert len(github.annotations[1]) == 51


@pytest.mark.parametrize("details", [True, False])
def test_dispatches(api: GitHubApi, github: GitHubStandIn, details: bool) -> None:
    github.run_details = details
    done = dispatch(
        api,
        workflow="rollback.yml",
        ref="main",
        inputs={"reason": "nan", "unknown": "x"},
        correlation_id=f"vllm-gate-1-{int(details) + 1}",
        sleep=lambda _: None,
    )
    assert done.run_url.startswith("https://github.com/org/deploy/actions/runs/")
    assert done.left_out == ("unknown",)


def test_reading(api: GitHubApi) -> None:
    assert CommitFiles(api, "main").read(Path("conf/settings.json"), "settings") == b"{}"
    assert api.get("/pulls/7").status == 200
    assert api.get("").status == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "x"},
        {"name": "x", "head_sha": HEAD, "conclusion": "broken"},
        {"name": "x", "head_sha": HEAD, "output": {"title": "t", "summary": "s", "annotations": [NOTE] * 51}},
    ],
)
def test_prism_refuses_what_the_description_does_not_allow(prism: str, wrong: dict[str, object]) -> None:
    answer = requests.post(f"{prism}/repos/org/deploy/check-runs", json=wrong, headers={"Authorization": "Bearer x"})
    assert answer.status_code == 422


def test_prism_refuses_an_answer_that_breaks_the_contract(prism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vllm_gate.simulator.github.check_run", lambda number, *_: {"id": number})
    answer = requests.post(
        f"{prism}/repos/org/deploy/check-runs",
        json={"name": "x", "head_sha": HEAD},
        headers={"Authorization": "Bearer x"},
    )
    assert answer.status_code == 500
    assert "VIOLATIONS" in answer.text
