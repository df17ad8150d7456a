"""The other commands, from the outside."""

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.cli.console import release, vllm_gate, write_config

from vllm_gate import __version__
from vllm_gate.cli import COMMANDS
from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings

CAPTURE_SETTINGS = '{"gate_config": {"gate_2_numerical": {"prompts": 20, "max_prompts": 20, "positions": 4}}}'


def test_the_version_is_told_without_importing_what_it_does_not_need() -> None:
    code = (
        "import sys; from vllm_gate.cli import main; code = main(['--version']);"
        "print(sorted({'numpy', 'requests', 'rich', 'jsonschema'} & set(sys.modules))); sys.exit(code)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [f"vllm-gate {__version__}", "[]"]


def test_every_command_has_a_module_and_explains_itself(tmp_path: Path) -> None:
    for name in COMMANDS:
        ran = vllm_gate(name, "--help", cwd=tmp_path)
        assert ran.code == 0, (name, ran.err)
        assert "usage: vllm-gate" in ran.out


def test_no_command_and_an_unknown_one_are_exit_2(tmp_path: Path) -> None:
    assert vllm_gate(cwd=tmp_path).code == 2
    unknown = vllm_gate("rnu", cwd=tmp_path)
    assert unknown.code == 2
    assert "rnu" in unknown.err


def test_init_writes_files_that_validate_and_touches_none_that_exist(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("# mine\n")
    ran = vllm_gate("init", cwd=tmp_path)
    assert ran.code == 0
    assert (tmp_path / "config.toml").read_text() == "# mine\n"
    (tmp_path / "config.toml").unlink()
    vllm_gate("init", cwd=tmp_path)
    validated = vllm_gate("validate", cwd=tmp_path)
    assert validated.code == 0, validated.all
    assert "0 errors" in validated.out


def test_validate_tells_problems_as_json_too(tmp_path: Path) -> None:
    write_config(tmp_path, "nonsense")
    ran = vllm_gate("validate", "--format", "json", cwd=tmp_path)
    assert ran.code == 2
    (problem,) = [row for row in json.loads(ran.out) if row["severity"] == "error"]
    assert (problem["path"], problem["line"], problem["key"]) == ("config.toml", 2, "service.under_test.base_url")


def test_validate_lists_the_conditions(tmp_path: Path) -> None:
    listed = vllm_gate("validate", "--conditions", cwd=tmp_path).out.split()
    assert {"gate_3_deterministic_probe_failed", "gate_2_logit_drift_exceeded", "gate_1_failed"} <= set(listed)


def test_the_demo_tells_the_story(tmp_path: Path) -> None:
    ran = vllm_gate("demo", "--report-dir", "kept", cwd=tmp_path)
    story = " ".join(ran.out.split())
    assert ran.code == 0, ran.all
    assert story.index("all green") < story.index("✓ PASS") < story.index("✗ BLOCKED")
    assert "NaN" in story
    assert "The healthy release passed. The other one was blocked" in story
    assert json.loads((tmp_path / "kept" / "fp32_as_bf16" / "report.json").read_text())["verdict"] == "fail"


def test_a_demo_of_an_unknown_fault_names_the_nearest(tmp_path: Path) -> None:
    ran = vllm_gate("demo", "--fault", "lop", cwd=tmp_path)
    assert ran.code == 2
    assert "did you mean 'loop'" in ran.err


def test_simulate_lists_its_faults_and_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    assert "fp32_as_bf16" in vllm_gate("simulate", "--list-faults", cwd=tmp_path).out
    assert vllm_gate("simulate", "--fault", "nonsense", cwd=tmp_path).code == 2
    assert vllm_gate("simulate", "--tp", "0", cwd=tmp_path).code == 2
    assert vllm_gate("simulate", "--host", "203.0.113.1", "--port", "0", cwd=tmp_path).code == 2


@pytest.mark.parametrize(("tp", "faults", "code"), [(4, (), 0), (4, ("noise:0.2",), 1)])
def test_two_captures_are_compared_without_both_servers_being_up(
    tp: int, faults: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    for name, size, with_faults in (("one", 1, ()), ("other", tp, faults)):
        with release(tmp_path, *with_faults, tp=size):
            (tmp_path / "settings.json").write_text(CAPTURE_SETTINGS)
            captured = vllm_gate("capture", "--out", f"{name}.capture", cwd=tmp_path)
            assert captured.code == 0, captured.all
    ran = vllm_gate("compare", "one.capture", "other.capture", cwd=tmp_path)
    assert ran.code == code, ran.all
    assert "logit_drift" in ran.out


def test_a_capture_waits_for_a_server_that_is_starting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    write_config(tmp_path, f"http://127.0.0.1:{port}/v1", settings=CAPTURE_SETTINGS)
    assert vllm_gate("capture", "--out", "x", cwd=tmp_path).code == 3
    server = Simulator(SimulatorSettings(port=port))
    starting = threading.Timer(0.5, server.__enter__)
    starting.start()
    try:
        waited = vllm_gate("capture", "--wait", "--out", "x", cwd=tmp_path)
    finally:
        starting.join()
        server.__exit__(None, None, None)
    assert waited.code == 0, waited.all


def test_a_capture_waits_no_longer_than_gate_1_would(tmp_path: Path) -> None:
    short = CAPTURE_SETTINGS.replace('"gate_2', '"gate_1_model_load": {"timeout_sec": 1}, "gate_2')
    write_config(tmp_path, "http://127.0.0.1:1/v1", settings=short)
    ran = vllm_gate("capture", "--wait", "--out", "x", cwd=tmp_path)
    assert ran.code == 3
    assert "nothing listens there" in ran.err


def test_capture_and_compare_refuse_what_is_not_there(tmp_path: Path) -> None:
    with release(tmp_path):
        assert vllm_gate("capture", "--service", "baseline", "--out", "x", cwd=tmp_path).code == 2
    (tmp_path / "no.capture").write_bytes(b"x")
    ran = vllm_gate("compare", "no.capture", "no.capture", cwd=tmp_path)
    assert ran.code == 2
    assert "not a capture of vllm-gate" in ran.err
