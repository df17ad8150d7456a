"""action.yml, its variant without Docker, the documentation and the code say the same."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from vllm_gate.action import PLAN_OPTIONS, RUN_OPTIONS
from vllm_gate.core.report import Report
from vllm_gate.report.outputs import outputs

ROOT = Path(__file__).parent.parent.parent
BARE = Report(tool_version="1", started_at="", duration_s=0, gates=())


def metadata(path: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / path).read_text())
    return loaded


ACTION, COMPOSITE = metadata("action.yml"), metadata("composite/action.yml")


def test_both_variants_have_the_same_inputs_and_outputs() -> None:
    assert ACTION["inputs"] == COMPOSITE["inputs"]
    described = {name: output["description"] for name, output in ACTION["outputs"].items()}
    assert {name: output["description"] for name, output in COMPOSITE["outputs"].items()} == described
    assert all(
        output["value"] == f"${{{{ steps.gate.outputs.{name} }}}}" for name, output in COMPOSITE["outputs"].items()
    )


def test_the_code_reads_every_input_and_gives_every_output() -> None:
    source = (ROOT / "src/vllm_gate/action.py").read_text()
    read = set(re.findall(r'_(?:input|flag)\(environ, "([\w-]+)"', source)) | {*PLAN_OPTIONS, *RUN_OPTIONS}
    assert set(ACTION["inputs"]) == read
    assert set(ACTION["outputs"]) == set(outputs(BARE, report_path="", check_urls=()))


def test_the_variant_hands_every_input_on_and_puts_none_into_its_script() -> None:
    (step,) = COMPOSITE["runs"]["steps"]
    given = {f"INPUT_{name.upper()}": f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]}
    assert {key: value for key, value in step["env"].items() if key.startswith("INPUT_")} == given
    assert "${{" not in step["run"]


def test_the_container_states_its_entrypoint() -> None:
    """Kubernetes runners refuse an action without one."""
    assert ACTION["runs"]["entrypoint"].startswith("/")


@pytest.mark.parametrize("kind", ["inputs", "outputs"])
def test_the_documentation_lists_them_with_defaults_and_words(kind: str) -> None:
    text = (ROOT / "docs" / "github-action.md").read_text()
    section = text.split(f"## {kind.capitalize()}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [_row(name, entry) for name, entry in ACTION[kind].items()]


def _row(name: str, entry: dict[str, str]) -> str:
    words = entry["description"].replace("|", "\\|")
    if "default" not in entry:
        return f"| `{name}` | {words} |"
    default = f"`{entry['default']}`" if entry["default"] else ""
    return f"| `{name}` | {default} | {words} |"
