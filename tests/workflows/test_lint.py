"""Workflows and actions are clean under actionlint and zizmor, and each linter can say no."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
WORKFLOWS = sorted(
    path
    for folder in (".github/workflows", "examples/workflows", "src/vllm_gate/config/starter/workflows")
    for path in (ROOT / folder).glob("*.yml")
)
ACTIONS = [ROOT / name for name in ("action.yml", "composite/action.yml", "serve/action.yml")]
BROKEN = """\
on: pull_request_target
jobs:
  a:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: echo ${{ github.event.pull_request.title }} ${{ nonsense }}
"""


def actionlint(*files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "actionlint", "-config-file", ROOT / ".github/actionlint.yaml", *files],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


def zizmor(*files: Path) -> subprocess.CompletedProcess[str]:
    options = ["--offline", "--no-progress", "--config", str(ROOT / "zizmor.yml")]
    return subprocess.run([str(BIN / "zizmor"), *options, *map(str, files)], capture_output=True, text=True, cwd=ROOT)


def test_there_are_workflows_to_look_at() -> None:
    assert {path.name for path in WORKFLOWS} >= {"gate.yml", "localize.yml", "release.yml", "ci.yml", "rollback.yml"}


def test_actionlint_is_content() -> None:
    ran = actionlint(*WORKFLOWS)
    assert ran.returncode == 0, ran.stdout


def test_zizmor_is_content(tmp_path: Path) -> None:
    # It looks at workflows only where GitHub does.
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    for path in WORKFLOWS:
        shutil.copy(path, folder / f"{path.parent.parent.name}-{path.name}")
    ran = zizmor(*ACTIONS, tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert ran.stderr.count("completed") == len(WORKFLOWS) + len(ACTIONS)


@pytest.mark.parametrize("lint", [actionlint, zizmor])
def test_a_dangerous_workflow_is_refused(tmp_path: Path, lint: object) -> None:
    path = tmp_path / ".github" / "workflows" / "broken.yml"
    path.parent.mkdir(parents=True)
    path.write_text(BROKEN)
    assert callable(lint)
    assert lint(path).returncode != 0


def test_the_rollback_template_declares_what_is_sent_and_shows_the_correlation_id() -> None:
    text = (ROOT / "src/vllm_gate/config/starter/workflows/rollback.yml").read_text()
    for name in ("reason", "conditions", "sha", "run_url", "model", "from", "correlation_id"):
        assert f"\n      {name}:\n" in text
    assert "run-name: rollback ${{ inputs.correlation_id }}" in text
