"""A healthy server passes; the one with the original fault looks alive and is blocked on its token ids."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e.gate import requests_served, run
from tests.e2e.lab.serve import MODEL_NAME, Server
from tests.e2e.variants import serves

FAULTY = serves(3, "fp32_as_bf16")
GATE_1 = "gate_1_model_load"
GATE_3 = "gate_3_golden_prompt"
PROBE_ALONE = {GATE_3: {"suite": ""}}


def test_a_healthy_server_passes_gates_1_and_3(healthy: Server, tmp_path: Path) -> None:
    outcome = run(healthy, tmp_path, gates="1,3")

    assert outcome.exit_code == 0
    assert outcome.report["verdict"] == "pass"
    assert {finding["check"] for finding in outcome.findings(GATE_1)} == {
        "ready_endpoint",
        "weights_load",
        "tokenizer_load",
        "quant_config_parse",
    }
    probe, suite = outcome.findings(GATE_3)
    assert (probe["check"], probe["measured"]) == ("deterministic_probe", 1.0)
    assert (suite["check"], suite["measured"]) == ("golden_suite", 1.0)
    assert suite["samples"] >= 8 * 2 * 2


def test_its_startup_log_and_version_are_read(healthy: Server, tmp_path: Path) -> None:
    outcome = run(healthy, tmp_path, gates="1")

    (service,) = (each for each in outcome.report["services"] if each["name"] == "under_test")
    assert (service["model"], service["version"]) == (MODEL_NAME, "0.32.0")
    (weights,) = outcome.findings(GATE_1, "weights_load")
    lines = re.search(r"(\d+) log lines hold no weight problem", weights["message"])
    assert lines
    assert int(lines[1]) > 100
    assert weights["warning"] == ""


@FAULTY
def test_the_original_fault_is_blocked_within_ten_requests(variant: Server, tmp_path: Path) -> None:
    before = requests_served(variant)

    outcome = run(variant, tmp_path, gates="1,3", settings=PROBE_ALONE)

    assert outcome.exit_code == 1
    assert outcome.report["failed_gates"] == [GATE_3]
    probe, *_ = outcome.findings(GATE_3)
    assert probe["samples"] <= 10
    assert requests_served(variant) - before <= 10
    assert probe["symptom"] == "nan_argmax"
    assert "16 × token id 0, the argmax of NaN logits, shown as an empty text" in probe["message"]
    assert "Out of range float values are not JSON compliant" in probe["message"]


def test_a_right_answer_in_other_words_is_a_near_miss(healthy: Server, tmp_path: Path) -> None:
    outcome = run(healthy, tmp_path, gates="3", settings={GATE_3: {"expected_output": "Paris", "suite": ""}})

    assert outcome.exit_code == 1
    probe, *_ = outcome.findings(GATE_3)
    assert probe["symptom"] == "near_miss"
    assert "The capital of France is Paris." in probe["message"]


def test_the_usual_probe_is_beyond_a_small_model(healthy: Server, tmp_path: Path) -> None:
    usual = {"deterministic_probe": "Reply with exactly: OK", "expected_output": "OK", "suite": ""}

    outcome = run(healthy, tmp_path, gates="3", settings={GATE_3: usual})

    assert outcome.exit_code == 1
    probe, *_ = outcome.findings(GATE_3)
    assert probe["symptom"] != "nan_argmax"
    assert "I'm glad to help." in probe["message"]
