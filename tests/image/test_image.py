"""The image as the runner starts it: its folders, its variables, a container that shares nothing else.

The network is the machine's own, which is how chroot isolation works.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.action.runner import PUSH, Runner
from tests.cli.console import release
from tests.github.contract import judge

from vllm_gate.simulator.github import GitHubStandIn

IMAGE, AGAIN, BASE = "localhost/vllm-gate:ci", "localhost/vllm-gate:again", "localhost/vllm-gate-base"
OWNER = 12_345
"""The user of the runner, who owns the workspace."""


def buildah(*words: str) -> str:
    return subprocess.run(["buildah", *words], capture_output=True, text=True, check=True).stdout.strip()


def size(image: str) -> int:
    """Bytes."""
    container = buildah("from", image)
    try:
        counted = subprocess.run(["du", "-sxb", buildah("mount", container)], capture_output=True, text=True)
        return int(counted.stdout.split()[0])
    finally:
        buildah("rm", container)


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    name = buildah("from", IMAGE)
    yield name
    buildah("rm", name)


class ContainerRunner(Runner):
    """Mounts what the runner mounts, and gives paths as the container sees them."""

    def __init__(self, folder: Path, api_url: str, container: str) -> None:
        super().__init__(folder, api_url)
        self._folder, self._container = folder, container
        for name in ("home", "workflow"):
            (folder / name).mkdir()
        (folder / "workflow" / "event.json").write_text(json.dumps(PUSH))
        os.chown(self.workspace, OWNER, OWNER)

    def launch(self, variables: Mapping[str, str]) -> subprocess.Popen[str]:
        """`buildah run`, with the entry point of action.yml."""
        inside = {
            **variables,
            "HOME": "/github/home",
            "GITHUB_WORKSPACE": "/github/workspace",
            "GITHUB_EVENT_PATH": "/github/workflow/event.json",
            "GITHUB_OUTPUT": "/github/file_commands/OUTPUT",
            "GITHUB_STEP_SUMMARY": "/github/file_commands/STEP_SUMMARY",
        }
        command = ["buildah", "run", "--isolation", "chroot", "--workingdir", "/github/workspace"]
        for name in ("home", "workflow", "file_commands", "workspace"):
            command += ["--volume", f"{self._folder / name}:/github/{name}"]
        for name, value in inside.items():
            command += ["--env", f"{name}={value}"]
        command += [self._container, "--", "/opt/vllm-gate/bin/vllm-gate-action"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def github() -> Iterator[GitHubStandIn]:
    with GitHubStandIn() as stand_in:
        yield stand_in
    judge(stand_in.exchanges)


@pytest.mark.parametrize(("fault", "code", "verdict"), [("", 0, "pass"), ("fp32_as_bf16", 1, "fail")])
def test_a_whole_run(
    tmp_path: Path, container: str, github: GitHubStandIn, fault: str, code: int, verdict: str
) -> None:
    runner = ContainerRunner(tmp_path, github.url, container)
    with release(runner.workspace, *filter(None, [fault])):
        before = set(runner.workspace.rglob("*"))
        step = runner.step(gates="1,3")
    assert step.code == code, step.log
    assert step.outputs["verdict"] == verdict
    assert len(github.check_runs) == 2
    assert github.open_check_runs() == []
    assert "vllm-gate" in step.summary
    report = runner.workspace / step.outputs["report-path"]
    assert json.loads(report.read_text())["verdict"] == verdict
    left = set(runner.workspace.rglob("*")) - before
    assert report in left
    assert {path.stat().st_uid for path in left} == {OWNER}


def test_how_long_it_takes_to_the_first_check_run(tmp_path: Path, container: str, github: GitHubStandIn) -> None:
    """Printed here, not asserted: the machine may be busy."""
    runner = ContainerRunner(tmp_path, github.url, container)
    with release(runner.workspace):
        runner.step(gates="1,3")
        before = len(github.exchanges)
        started = time.monotonic()
        runner.step(gates="1,3")
    first = github.exchanges[before].at - started
    started = time.monotonic()
    command = ["buildah", "run", "--isolation", "chroot", container, "--", "/opt/vllm-gate/bin/python", "-c", "pass"]
    subprocess.run(command, check=True)
    bare = time.monotonic() - started
    print(f"\ncontainer start to first check run: {first:.2f} s; start of the bare interpreter: {bare:.2f} s")
    print(f"over the interpreter's own start: {first - bare:.2f} s (aim: 2 s)")


def test_its_size() -> None:
    over = (size(IMAGE) - size(BASE)) / 1e6
    print(f"\nimage: {over:.0f} MB over its base (aim: 150 MB)")
    assert over < 150


def test_two_builds_are_the_same() -> None:
    first, second = (
        buildah("inspect", "--type", "image", "--format", "{{.FromImageDigest}}", name) for name in (IMAGE, AGAIN)
    )
    assert first == second


def test_nothing_of_the_build_is_left(container: str) -> None:
    root = Path(buildah("mount", container))
    assert not (root / "src").exists()
    assert not (root / "opt/pip").exists()
    assert not (root / "etc/pip.conf").exists()
    assert not list((root / "opt/vllm-gate").rglob("pip"))
    assert (root / "bin/sh").exists()


def test_a_module_in_the_workspace_is_not_imported(tmp_path: Path, container: str, github: GitHubStandIn) -> None:
    runner = ContainerRunner(tmp_path, github.url, container)
    (runner.workspace / "requests.py").write_text("raise SystemExit('hijacked')\n")
    with release(runner.workspace):
        step = runner.step(gates="3")
    assert step.code == 0, step.log
