"""`vllm-gate run` from the outside: exit codes, what is printed, what is written, and never a traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from tests.cli.console import SETTINGS, Ran, release, vllm_gate, write_config
from tests.config import example
from tests.config.test_broken import CONFIG_CASES, SETTINGS_CASES, change

from vllm_gate.report.json_report import schema

GATES = ("run", "--gates", "1,3")
IMPATIENT = SETTINGS.replace('"timeout_sec": 10', '"timeout_sec": 0.5')


def report(folder: Path) -> dict[str, object]:
    written: dict[str, object] = json.loads((folder / "vllm-gate-report" / "report.json").read_text())
    Draft202012Validator(schema()).validate(written)
    return written


def symptoms(folder: Path) -> list[str]:
    gates = report(folder)["gates"]
    assert isinstance(gates, list)
    return [finding["symptom"] for gate in gates for finding in gate["findings"] if finding["verdict"] == "fail"]


def test_a_healthy_release_passes_with_exit_0_and_a_valid_report(tmp_path: Path) -> None:
    with release(tmp_path):
        ran = vllm_gate(*GATES, cwd=tmp_path)
    assert ran.code == 0, ran.all
    assert ran.out.startswith("✓ PASS")
    assert report(tmp_path)["verdict"] == "pass"


@pytest.mark.parametrize(
    ("fault", "symptom"),
    [
        ("fp32_as_bf16", "nan_argmax"),
        ("nan_logits", "nan_argmax"),
        ("loop", "loop"),
        ("empty_text", "empty_text"),
        ("uniform_noise", "uniform_noise"),
        ("dies_at_start", "torchcodec_import"),
        ("wrong_model", "wrong_model"),
        ("tokenizer_mismatch", "tokenizer_mismatch"),
        ("only_under_load:2", "only_under_load"),
        ("only_streaming", "only_streaming"),
        ("http_500", "http_error"),
        ("hang", "hang"),
        ("near_miss", "near_miss"),
        ("refusal", "refusal"),
        ("wrong_script", "wrong_script"),
    ],
)
def test_each_output_fault_is_blocked_with_exit_1_and_its_own_diagnosis(
    fault: str, symptom: str, tmp_path: Path
) -> None:
    with release(tmp_path, fault):
        ran = vllm_gate(*GATES, cwd=tmp_path)
    assert ran.code == 1, ran.all
    assert symptom in symptoms(tmp_path)
    assert "Traceback (most recent call last)" not in ran.err


def test_the_original_fault_is_told_in_words(tmp_path: Path) -> None:
    with release(tmp_path, "fp32_as_bf16"):
        ran = vllm_gate(*GATES, cwd=tmp_path)
    assert "16 × token id 0, the argmax of NaN logits" in " ".join(ran.out.split())


def test_a_matching_condition_is_told_with_its_reason(tmp_path: Path) -> None:
    with release(tmp_path, "fp32_as_bf16"):
        config = tmp_path / "config.toml"
        config.write_text(config.read_text() + "\n[rollback]\nauto_rollback = true\n")
        ran = vllm_gate(*GATES, cwd=tmp_path)
    decision = report(tmp_path)["decision"]
    assert isinstance(decision, dict)
    assert decision["matched"] == ["gate_3_deterministic_probe_failed"]
    assert decision["action"] == "dry-run"
    assert "rollback: dry-run — gate_3_deterministic_probe_failed" in ran.out


def test_a_healthy_release_matches_no_condition(tmp_path: Path) -> None:
    with release(tmp_path):
        vllm_gate(*GATES, cwd=tmp_path)
    decision = report(tmp_path)["decision"]
    assert isinstance(decision, dict)
    assert (decision["matched"], decision["action"]) == ([], "none")


def test_the_original_fault_needs_more_than_one_gpu(tmp_path: Path) -> None:
    with release(tmp_path, "fp32_as_bf16", tp=1):
        assert vllm_gate(*GATES, cwd=tmp_path).code == 0


def test_a_slow_start_is_waited_for(tmp_path: Path) -> None:
    with release(tmp_path, "slow_start:1"):
        assert vllm_gate(*GATES, cwd=tmp_path).code == 0


def test_a_release_that_can_not_be_reached_is_exit_3_and_says_what_was_tried(tmp_path: Path) -> None:
    write_config(tmp_path, "http://127.0.0.1:9/v1", settings=IMPATIENT)
    ran = vllm_gate(*GATES, cwd=tmp_path)
    assert ran.code == 3
    assert "NOT JUDGED" in ran.out
    assert "http://127.0.0.1:9/v1" in ran.out
    assert report(tmp_path)["verdict"] == "error"


@pytest.mark.parametrize(("fail_on", "code"), [("fail", 0), ("inconclusive", 3), ("never", 0)])
def test_fail_on_says_whether_not_judging_fails(fail_on: str, code: int, tmp_path: Path) -> None:
    write_config(tmp_path, "http://127.0.0.1:9/v1", settings=IMPATIENT)
    assert vllm_gate(*GATES, "--fail-on", fail_on, cwd=tmp_path).code == code


def test_json_goes_to_standard_output_alone(tmp_path: Path) -> None:
    with release(tmp_path):
        ran = vllm_gate(*GATES, "--format", "json", cwd=tmp_path)
    assert json.loads(ran.out) == report(tmp_path)


def test_a_missing_file_is_exit_2_and_names_the_starter(tmp_path: Path) -> None:
    ran = vllm_gate("run", cwd=tmp_path)
    assert ran.code == 2
    assert "settings.json: there is no such settings file" in ran.err
    assert "vllm-gate init" in ran.err


def test_every_broken_configuration_is_exit_2_with_its_line_and_asks_nobody(tmp_path: Path) -> None:
    cases = [("settings.json", example.SETTINGS, *case[:3]) for case in SETTINGS_CASES]
    cases += [("config.toml", example.CONFIG, *case[:3]) for case in CONFIG_CASES]
    assert len(cases) >= 25
    for name, whole, old, new, place in cases:
        (tmp_path / "settings.json").write_text(example.SETTINGS)
        (tmp_path / "config.toml").write_text(example.CONFIG)
        text = change(whole, old, new)
        (tmp_path / name).write_text(text)
        ran = vllm_gate("run", cwd=tmp_path)
        assert ran.code == 2, text
        assert f"{name}:{place}: error" in ran.err, (place, ran.err)
        assert "Traceback" not in ran.all
        assert not (tmp_path / "vllm-gate-report").exists()
        assert vllm_gate("validate", cwd=tmp_path).code == 2


@pytest.mark.parametrize("arguments", [("--gates", "9"), ("--gates", "x"), ("--fail-on", "maybe"), ("--nonsense",)])
def test_a_wrong_option_is_exit_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    write_config(tmp_path, "http://127.0.0.1:9/v1")
    ran = vllm_gate("run", *arguments, cwd=tmp_path)
    assert ran.code == 2
    assert "Traceback" not in ran.all


def test_a_key_appears_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("RELEASE_KEY", key)
    with release(tmp_path, api_key=key) as server:
        write_config(tmp_path, server.base_url, more={"api_key_env": "RELEASE_KEY", "log": "vllm.log"})
        ran = vllm_gate(*GATES, cwd=tmp_path)
    assert ran.code == 0, ran.all
    assert key not in ran.all
    assert all(key.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_missing_key_is_not_called_a_broken_release(tmp_path: Path) -> None:
    with release(tmp_path, api_key="needed"):
        ran = vllm_gate(*GATES, cwd=tmp_path)
    assert ran.code == 3, ran.all


def test_an_unwritable_report_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with release(tmp_path):
        ran = vllm_gate(*GATES, "--report-dir", "taken", cwd=tmp_path)
    assert ran.code == 2
    assert "taken" in ran.err


def test_an_interrupted_run_is_exit_130_and_leaves_no_report(tmp_path: Path) -> None:
    write_config(tmp_path, "http://127.0.0.1:9/v1", settings=SETTINGS.replace('"timeout_sec": 10', '"timeout_sec": 60'))
    process = subprocess.Popen(
        [sys.executable, "-m", "vllm_gate", *GATES],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    process.stderr.readline()  # the gate has begun
    process.terminate()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted by SIGTERM" in err
    assert not (tmp_path / "vllm-gate-report").exists()


def test_a_bug_of_ours_is_exit_70_with_the_details_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("vllm_gate.app.release.judge", broken)
    write_config(tmp_path, "http://127.0.0.1:9/v1")
    ran: Ran = vllm_gate("run", cwd=tmp_path)
    assert ran.code == 70
    assert "internal error: RuntimeError: boom" in ran.err
    details = Path(ran.err.split("details are in ")[1].split(";")[0])
    assert "RuntimeError: boom" in details.read_text()
    details.unlink()
