"""The execution path gate: a log, a lock, a matrix and a server, each as the test says."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.gates.test_model_load import Log, Scripted, context
from tests.path.test_sources import safetensors

from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import NoAnswer
from vllm_gate.gates.execution_path import CHECK_NAMES, ExecutionPathGate
from vllm_gate.gates.interface import Context
from vllm_gate.path.lock import approve, to_text
from vllm_gate.path.record import read_log
from vllm_gate.server.reply import Reply

TODAY = datetime.date(2026, 12, 1)
LOGS = Path(__file__).parent.parent / "path" / "logs"
H100 = (LOGS / "synthetic-0.32.0-h100-tp4.log").read_text().splitlines()
CPU = (LOGS / "vllm-0.32.0-cpu-tp1.log").read_text(errors="replace").splitlines()
ONEDNN = "Failed to create oneDNN linear, fallback to torch linear"


def approved(lines: Sequence[str], expires: datetime.date | None = None) -> str:
    return to_text(approve(read_log(lines), reason="known", today=TODAY, expires=expires))


def asked(
    log: Sequence[str] | None,
    *,
    lock: str = "",
    matrix: Mapping[str, object] | None = None,
    service: Scripted | None = None,
    weights: bytes = b"",
) -> tuple[dict[str, Finding], Context]:
    around = context(service or Scripted(), log, matrix)
    around = replace(
        around,
        plan=replace(around.plan, lock=lock),
        today=TODAY,
        checkpoint=lambda _: {"model.safetensors": weights} if weights else {},
        log=None if log is None else Log(log),
    )
    (check,) = ExecutionPathGate().checks(around.plan)
    found = {finding.check: finding for finding in check.ask(around)}
    assert set(found) <= set(CHECK_NAMES)
    return found, around


def changed(lines: Sequence[str], old: str, new: str) -> list[str]:
    assert any(old in line for line in lines)
    return [line.replace(old, new) for line in lines]


def test_an_approved_path_passes_every_check() -> None:
    found, around = asked(H100, lock=approved(H100))
    assert {finding.verdict for finding in found.values()} == {Verdict.PASS}
    assert around.facts["changes"] == []


def test_a_real_fallback_blocks_until_it_is_approved_and_again_when_the_approval_has_ended() -> None:
    (before, _), (after, _) = asked(CPU), asked(CPU, lock=approved(CPU))
    (late, _) = asked(CPU, lock=approved(CPU, expires=TODAY - datetime.timedelta(days=1)))
    assert before["kernel_fallback"].verdict is Verdict.FAIL
    assert "nobody approved it" in before["kernel_fallback"].message
    assert any(ONEDNN in one.text for one in before["kernel_fallback"].evidence)
    assert after["kernel_fallback"].verdict is Verdict.PASS
    assert late["kernel_fallback"].verdict is Verdict.FAIL
    assert "its approval ended on 2026-11-30" in late["kernel_fallback"].message


def test_a_log_without_a_whole_start_is_no_pass() -> None:
    found, _ = asked(H100[:8])
    assert found["kernel_fallback"].verdict is Verdict.INCONCLUSIVE


def test_without_a_log_the_path_is_skipped_and_with_a_lock_alone_it_is_inconclusive() -> None:
    assert asked(None)[0]["kernel_fallback"].verdict is Verdict.SKIPPED
    assert asked(None, lock=approved(H100))[0]["kernel_fallback"].verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("dtype=torch.bfloat16", "dtype=torch.float16", "dtype_path"),
        ("kv_cache_dtype=auto", "kv_cache_dtype=fp8_e5m2", "dtype_path"),
        ("Using FLASH_ATTN attention", "Using TRITON_ATTN attention", "kernel_path"),
        ("norm_quant, act_quant, allreduce_rms", "norm_quant, act_quant", "kernel_path"),
    ],
)
def test_a_change_that_nobody_approved_fails_the_check_it_belongs_to(old: str, new: str, check: str) -> None:
    found, _ = asked(changed(H100, old, new), lock=approved(H100))
    failed = [name for name, finding in found.items() if finding.verdict is Verdict.FAIL]
    assert failed == [check]
    assert "changed without approval" in found[check].message


def test_a_new_release_alone_is_told_and_not_failed() -> None:
    found, _ = asked(changed(H100, "(v0.32.0)", "(v0.32.1)"), lock=approved(H100))
    assert found["kernel_path"].verdict is Verdict.PASS
    assert "runtime_version: 0.32.0 → 0.32.1" in found["kernel_path"].warning


def test_a_server_that_is_not_as_declared_fails() -> None:
    found, _ = asked(H100, matrix={"parallelism_tp": 8, "dtype_activation": "bf16"})
    assert found["matrix"].verdict is Verdict.FAIL
    assert "parallelism_tp is 4, declared 8" in found["matrix"].message


def test_the_log_of_another_server_is_found_out_by_its_fingerprint() -> None:
    service = Scripted()
    service.answer = Reply(text="!", system_fingerprint="vllm-0.32.0-tp2-1a2b3c4d")
    found, _ = asked(H100, service=service)
    assert found["contradictions"].verdict is Verdict.FAIL
    assert "parallelism_tp is 4 by the log and 2 by system_fingerprint" in found["contradictions"].message
    service.answer = Reply(text="!", system_fingerprint="vllm-0.32.0-tp4-1a2b3c4d")
    assert asked(H100, service=service)[0]["contradictions"].verdict is Verdict.PASS


def test_a_server_that_answers_nothing_leaves_the_log_to_speak() -> None:
    service = Scripted()
    service.answer = NoAnswer("connection refused", reason="refused")
    assert asked(H100, service=service)[0]["kernel_fallback"].verdict is Verdict.PASS


def test_what_the_log_does_not_tell_comes_from_the_server_and_the_checkpoint() -> None:
    service = Scripted()
    service.info = {"system_env": {"nvidia_gpu_models": "NVIDIA H100\nNVIDIA H100"}}
    weights = safetensors(model__norm__weight=("F32", [64]))
    declared = {"hardware": "H100", "dtype_rmsnorm_weight": "fp32"}
    found, around = asked(H100, service=service, weights=weights, matrix=declared)
    assert around.facts["sources"] == {
        "hardware": "/server_info",
        "dtype_weights": "checkpoint",
        "dtype_rmsnorm_weight": "checkpoint",
    }
    assert found["matrix"].message == "2 of 2 declared facts are seen in the log, as declared"
    bf16 = safetensors(model__norm__weight=("BF16", [64]))
    assert asked(H100, weights=bf16, matrix=declared)[0]["matrix"].verdict is Verdict.FAIL


def test_a_known_fault_is_told_where_only_the_log_shows_it() -> None:
    lines = changed(H100, "(v0.32.0)", "(v0.25.0)")
    found, _ = asked(lines, service=None)
    assert found["known_fault"].verdict is Verdict.PASS
    assert "vLLM issue 48324" in found["known_fault"].warning
    fixed = asked(changed(H100, "(v0.32.0)", "(v0.25.1)"))[0]["known_fault"]
    assert "48324" not in fixed.warning


def test_what_is_deployed_and_not_gated_is_told() -> None:
    found, _ = asked(changed(H100, "enforce_eager=False", "enforce_eager=True"))
    assert "enforce_eager is on" in found["coverage"].warning
    assert "TP=4 is deployed" in found["coverage"].warning
