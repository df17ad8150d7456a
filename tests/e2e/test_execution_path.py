"""The startup logs of real servers: what is in them, what was approved, and what changed."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.gate import Outcome, command, run
from tests.e2e.lab.serve import DTYPE, Server
from tests.e2e.variants import serves

PATH = "execution_path"
FALLBACK = "Model Runner V2 requires Triton; using the V1 model runner instead"
"""The CPU build says so at each start: a real fallback, and one that a reviewer may approve."""


def test_a_fallback_blocks_until_it_is_approved(healthy: Server, tmp_path: Path) -> None:
    lock = tmp_path / "vllm-gate.lock.json"

    before = run(healthy, tmp_path, gates="path", lock=lock)
    refused, _ = command("approve", "--log", healthy.log, "--lock-file", lock)
    approved, _ = command(
        "approve", "--log", healthy.log, "--lock-file", lock, "--reason", "there is no Triton for CPUs"
    )
    after = run(healthy, tmp_path, gates="path", lock=lock)

    assert before.exit_code == 1
    (fallback,) = before.findings(PATH, "kernel_fallback")
    assert FALLBACK in fallback["message"]
    assert FALLBACK in healthy.log.read_text().splitlines()[fallback["location"]["line"] - 1]
    assert (refused.returncode, approved.returncode, after.exit_code) == (2, 0, 0)


def test_the_log_says_what_runs(healthy: Server, tmp_path: Path) -> None:
    observed = _observed(run(healthy, tmp_path, gates="path"))

    assert (
        observed.items()
        >= {
            "runtime_version": "0.32.0",
            "device": "cpu",
            "parallelism_tp": "1",
            "dtype_activation": {"bfloat16": "bf16", "float32": "fp32"}[DTYPE],
            "quantization": "None",
            "enforce_eager": "True",
            "architecture": "LlamaForCausalLM",
            "max_model_len": "8192",
            "prefix_caching": "True",
        }.items()
    )


@serves(3)
def test_another_parallelism_was_not_approved(variant: Server, healthy: Server, tmp_path: Path) -> None:
    lock = tmp_path / "vllm-gate.lock.json"
    command("approve", "--log", healthy.log, "--lock-file", lock, "--reason", "there is no Triton for CPUs")

    outcome = run(variant, tmp_path, gates="path", lock=lock, config="\n[matrix]\nparallelism_tp = 1\n")

    assert outcome.exit_code == 1
    assert _observed(outcome)["parallelism_tp"] == "3"
    messages = {finding["check"]: finding["message"] for finding in outcome.findings(PATH)}
    assert "parallelism_tp: 1 → 3" in messages["kernel_path"]
    assert "parallelism_tp is 3, declared 1" in messages["matrix"]


def _observed(outcome: Outcome) -> dict[str, str]:
    (gate,) = (gate for gate in outcome.report["gates"] if gate["gate"] == PATH)
    observed: dict[str, str] = gate["facts"]["observed"]
    return observed
