"""`uses: org/vllm-gate@v1` as users write it: the examples, by act, against a simulated vLLM and a GitHub stand-in.

act runs no container actions without Docker, so the root action is its variant without; nor does it know artifacts, so
those two actions are stand-ins that copy files.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.action.runner import BASE, HEAD
from tests.github.contract import judge

from vllm_gate.simulator.github import GitHubStandIn
from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings
from vllm_gate.simulator.traffic import bodies
from vllm_gate.traffic.request import CHAT

ROOT = Path(__file__).parent.parent.parent
ACT = Path(sys.executable).parent / "act"
SETTINGS = """\
{
  "gate_config": {
    "gate_1_model_load": {"timeout_sec": 20},
    "gate_3_golden_prompt": {"repeats": 1, "concurrency": [1, 4]},
    "gate_4_long_context": {"context_lengths": [1024], "max_requests": 12}
  },
  "rollback_conditions": ["gate_3_deterministic_probe_failed"]
}
"""
CANARY = """\
{
  "gate_config": {"gate_5_shadow_canary": {"traffic_ratio": 1.0}},
  "rollback_conditions": ["gate_5_task_success_dropped"]
}
"""
UPLOAD = "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02"
DOWNLOAD = "actions/download-artifact@d3f86a106a0bac45b974a628896c90dbdf5c8093"
LOCALIZE = """\
on: workflow_dispatch
jobs:
  localize:
    uses: org/vllm-gate/.github/workflows/localize.yml@v1
    with: {image: "vllm/vllm-openai:v0.25.0", model: m}
"""
STAND_INS = {
    UPLOAD: (
        "{name: {default: x}, path: {required: true}, if-no-files-found: {default: x}}",
        # A folder's content becomes the artifact's, not the folder itself.
        """mkdir -p "$STORE/$NAME" && if [ -d "$WHAT" ]; then WHAT="$WHAT/."; fi && cp -r $WHAT "$STORE/$NAME/\"""",
    ),
    DOWNLOAD: (
        "{pattern: {default: x}, path: {default: .}, merge-multiple: {default: x}}",
        """mkdir -p "$WHAT" && for found in $STORE/$PATTERN; do
        if [ "$MERGE" = true ]; then cp -r "$found"/. "$WHAT"/; else cp -r "$found" "$WHAT"/; fi; done""",
    ),
}


@dataclass(frozen=True)
class Ran:
    code: int
    log: str


def repository(folder: Path) -> Path:
    """Make `folder` a git repository with one commit: act takes actions from nothing else."""
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "x")):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def actions(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Action reference to local repository."""
    made = tmp_path_factory.mktemp("actions")
    ours = made / "vllm-gate"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if name.startswith(("src/", "composite/", "serve/", ".github/workflows/", "requirements.lock")):
            (ours / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, ours / name)
    variant = (ours / "composite/action.yml").read_text()
    (ours / "action.yml").write_text(variant.replace('"$ACTION_PATH/run"', '"$ACTION_PATH/composite/run"'))
    # The machine may have its own server at port 8000, and has no Docker whose logs could be read.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for path in (ours / "serve/action.yml", ours / ".github/workflows/gate.yml"):
        path.write_text(path.read_text().replace("'8000'", f"'{port}'"))
    serve = ours / "serve/run"
    serve.write_text(serve.read_text().replace("log=docker:$name", "log=$CONTAINERS/$name.log"))
    found = {"org/vllm-gate@v1": repository(ours)}
    for reference, (inputs, script) in STAND_INS.items():
        folder = made / reference.partition("@")[0].replace("/", "-")
        folder.mkdir()
        step = {
            "shell": "bash",
            "env": {
                "STORE": str(made / "store"),
                "NAME": "${{ inputs.name }}",
                "PATTERN": "${{ inputs.pattern }}",
                "WHAT": "${{ inputs.path }}",
                "MERGE": "${{ inputs.merge-multiple }}",
            },
            "run": script,
        }
        runs = json.dumps({"using": "composite", "steps": [step]})
        (folder / "action.yml").write_text(f"name: x\ndescription: x\ninputs: {inputs}\nruns: {runs}\n")
        found[reference] = repository(folder)
    return found


@pytest.fixture
def github() -> Iterator[GitHubStandIn]:
    with GitHubStandIn() as stand_in:
        yield stand_in
    judge(stand_in.exchanges)


@dataclass
class Job:
    """A user's repository in which act runs a workflow."""

    folder: Path
    actions: Mapping[str, Path]
    github: GitHubStandIn

    @property
    def containers(self) -> Path:
        """Where the stand-in for Docker keeps what it knows."""
        return self.folder.parent / "containers"

    @property
    def started(self) -> list[str]:
        """The words of each `docker run`."""
        return (self.containers / "started").read_text().splitlines()

    def act(self, event: str, workflow: str, payload: Mapping[str, Any] | None = None, **given: str) -> Ran:
        inputs = {name.replace("_", "-"): value for name, value in given.items()}
        event_file = self.folder.parent / "event.json"
        event_file.write_text(json.dumps({"inputs": inputs, **(payload or {"repository": {"default_branch": "main"}})}))
        home = self.folder.parent / "home"
        home.mkdir(exist_ok=True)
        command = [
            str(ACT),
            event,
            "-W",
            f".github/workflows/{workflow}",
            "-e",
            str(event_file),
            "-s",
            "GITHUB_TOKEN=ghs_planted_0123456789",
        ]
        command += [word for label in ("self-hosted", "h100") for word in ("-P", f"{label}=-self-hosted")]
        command += ["--env", f"GITHUB_API_URL={self.github.url}", "--env", f"VLLM_GATE_CACHE={ROOT / '.lab/tools'}"]
        command += ["--env", "GITHUB_REPOSITORY=org/deploy"]
        for reference, path in self.actions.items():
            command += ["--local-repository", f"{reference}={path}"]
        self.containers.mkdir(exist_ok=True)
        docker = self.containers / "docker"
        docker.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT / "tests/act/docker.py"} "$@"\n')
        docker.chmod(0o755)
        command += ["--env", f"CONTAINERS={self.containers}"]
        environ = {
            **os.environ,
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "PATH": f"{self.containers}:{os.environ['PATH']}",
        }
        ran = subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=300)
        return Ran(ran.returncode, ran.stdout + ran.stderr)


@pytest.fixture
def job(tmp_path: Path, actions: Mapping[str, Path], github: GitHubStandIn) -> Iterator[Any]:
    """`job(*faults)` serves a release and writes a repository that judges it with every example."""
    servers: list[Simulator] = []

    def make(*faults: str) -> Job:
        servers.append(Simulator(SimulatorSettings(faults=faults)).__enter__())
        folder = tmp_path / "deploy"
        workflows = folder / ".github" / "workflows"
        workflows.mkdir(parents=True)
        for path in (ROOT / "examples/workflows").glob("*.yml"):
            # The release is up already: there is no Docker to start it with.
            (workflows / path.name).write_text(
                path.read_text().replace("default: vllm/vllm-openai:v0.25.1", 'default: ""')
            )
        (folder / "settings.json").write_text(SETTINGS)
        (folder / "config.toml").write_text(
            f'[service.under_test]\nbase_url = "{servers[-1].base_url}"\nmodel = "{SimulatorSettings().model}"\n'
            'api_key_env = "VLLM_LOCAL_KEY"\n\n[rollback]\nauto_rollback = true\n'
        )
        files = {name: (folder / name).read_bytes() for name in ("settings.json", "config.toml")}
        github.files = {"main": files, BASE: files}
        return Job(repository(folder), actions, github)

    yield make
    for server in servers:
        server.__exit__(None, None, None)


PULL = {
    "pull_request": {
        "number": 7,
        "head": {"sha": HEAD, "ref": "release", "repo": {"full_name": "org/deploy"}},
        "base": {"sha": BASE, "ref": "main"},
    },
    "repository": {"default_branch": "main", "full_name": "org/deploy"},
}


def test_a_pull_request_gets_its_check_runs(job: Any, github: GitHubStandIn) -> None:
    ran = job().act("pull_request", "pr.yml", PULL)
    assert ran.code == 0, ran.log
    conclusions = {run["name"]: run["conclusion"] for run in github.check_runs.values()}
    assert conclusions["vllm-gate / 1 model load"] == "success"
    assert conclusions["vllm-gate / 3 golden prompts"] == "success"


def test_a_broken_release_fails_the_pull_request_and_rolls_nothing_back(job: Any, github: GitHubStandIn) -> None:
    ran = job("fp32_as_bf16").act("pull_request", "pr.yml", PULL)
    assert ran.code == 1, ran.log
    assert "failure" in {run["conclusion"] for run in github.check_runs.values()}
    assert github.runs == []


def test_a_broken_night_is_rolled_back_and_told_to_later_steps(job: Any, github: GitHubStandIn) -> None:
    ran = job("fp32_as_bf16").act("schedule", "nightly.yml")
    assert ran.code == 1, ran.log
    (rollback,) = github.runs
    assert f"verdict fail, rollback {rollback['html_url']}" in ran.log


def test_by_hand_with_inputs(job: Any, github: GitHubStandIn) -> None:
    made = job()
    with Simulator(SimulatorSettings(faults=("loop",))) as other:
        ran = made.act("workflow_dispatch", "manual.yml", service_url=other.base_url, gates="3")
    assert ran.code == 1, ran.log
    assert [run["name"] for run in github.check_runs.values()] == ["vllm-gate / 3 golden prompts"]


def test_the_reusable_workflow_judges_in_stages(job: Any, github: GitHubStandIn) -> None:
    ran = job().act("workflow_dispatch", "rollout.yml")
    assert ran.code == 0, ran.log
    names = [run["name"] for run in github.check_runs.values()]
    assert {"vllm-gate / 1 model load", "vllm-gate / 3 golden prompts"} <= set(names)
    assert any(name.startswith("vllm-gate / 4") for name in names)
    assert "vllm-gate: pass (gates 1 to 3: pass, gates 4 and 5: pass)" in ran.log or "verdict=pass" in ran.log


def test_the_reusable_workflow_stops_at_a_fault(job: Any, github: GitHubStandIn) -> None:
    ran = job("fp32_as_bf16").act("workflow_dispatch", "rollout.yml")
    assert ran.code == 1, ran.log
    assert not any(run["name"].startswith("vllm-gate / 4") for run in github.check_runs.values())
    assert len(github.runs) == 1


def test_a_release_that_the_workflow_starts_is_captured_and_judged(job: Any, github: GitHubStandIn) -> None:
    made = job()
    ran = made.act("workflow_dispatch", "rollout.yml", image="vllm/vllm-openai:v0.25.0")
    assert ran.code == 1, ran.log
    assert "texts of under_test" in ran.log, ran.log
    assert len(github.runs) == 1
    assert len(made.started) == 2, "the TP=1 variant, and the release"
    assert not list(made.containers.glob("*.pid"))


def test_a_canary_in_shards_gets_one_verdict_and_one_rollback(job: Any, github: GitHubStandIn) -> None:
    made = job("fp32_as_bf16")
    traffic = made.folder.parent / "traffic.jsonl"
    rows = ({"custom_id": str(number), "url": CHAT, "body": body} for number, body in enumerate(bodies(80)))
    traffic.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (made.folder / "settings.json").write_text(CANARY)
    with Simulator(SimulatorSettings(tp=1)) as baseline:
        config = (made.folder / "config.toml").read_text()
        address = f'base_url = "{baseline.base_url}"\nmodel = "{SimulatorSettings().model}"\n'
        (made.folder / "config.toml").write_text(f"{config}\n[service.baseline]\n{address}")
        ran = made.act("workflow_dispatch", "canary.yml", traffic=str(traffic))
    assert ran.code == 1, ran.log
    assert [run["name"] for run in github.check_runs.values()] == ["vllm-gate / 5 shadow canary"], ran.log
    assert len(github.runs) == 1


def test_a_fault_is_localised(job: Any) -> None:
    """By the reusable workflow alone: act asks no job behind one that failed."""
    made = job()
    (made.folder / ".github/workflows/localize.yml").write_text(LOCALIZE)
    ran = made.act("workflow_dispatch", "localize.yml")
    assert ran.code == 0, ran.log
    assert "The fault vanishes with: fusion-off, tp-1." in ran.log, ran.log
    assert len(made.started) == 5
    assert not list(made.containers.glob("*.pid"))
