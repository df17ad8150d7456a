"""One server by six releases: Qwen3-32B in FP8 on four H100s, in the words and forms of each.

The logs are synthetic: put together from the messages of each release's source, in six forms of line (plain, coloured,
JSON, with a collector's time stamps). What the path shares must read the same; what a release changed must not.
"""

import datetime
import itertools
from pathlib import Path

import pytest

from vllm_gate.path.diff import changes
from vllm_gate.path.lock import approve
from vllm_gate.path.record import OUTSIDE, ExecutionPath, State, read_chunks, read_log

LOGS = Path(__file__).parent / "logs"
RELEASES = ("0.11.0", "0.16.0", "0.22.0", "0.25.0", "0.28.0", "0.32.0")

SAME = {
    "model": "nvidia/Qwen3-32B-FP8",
    "architecture": "Qwen3ForCausalLM",
    "max_model_len": "32768",
    "dtype_activation": "bf16",
    "dtype_kv_cache": "auto",
    "quantization": "modelopt",
    "parallelism_tp": "4",
    "parallelism_pp": "1",
    "parallelism_dp": "1",
    "device": "cuda",
    "enforce_eager": "False",
    "prefix_caching": "True",
    "chunked_prefill": "True",
    "speculative_decoding": "None",
    "custom_allreduce_disabled": "False",
    "load_format": "auto",
    "compile_mode": "VLLM_COMPILE",
    "cudagraph_mode": "FULL_AND_PIECEWISE",
    "cudagraphs_captured": "yes",
    "attention_backend": "FLASH_ATTN",
    "nccl_version": "2.27.5",
}
"""What all six say, in whatever words."""
IR_OPS = "IrOpPriorityConfig(rms_norm=['vllm_c', 'native'], fused_add_rms_norm=['vllm_c', 'native']"
SINCE: tuple[tuple[str, dict[str, str]], ...] = (
    ("0.11.0", {"sampling_defaults": "the model's Hugging Face generation config recommended from the model creator"}),
    (
        "0.16.0",
        {
            "linear_kernels": "CutlassFP8ScaledMMLinearKernel",
            "sampling_defaults": "the model's `generation_config.json`: "
            "`{'temperature': 0.6, 'top_k': 20, 'top_p': 0.95}`",
        },
    ),
    (
        "0.22.0",
        {
            "parallelism_dcp": "1",
            "requested_moe_backend": "auto",
            "flash_attention_version": "3",
            "allreduce_backends": "CUSTOM, PYNCCL",
            "allreduce_fusion_backend": "trtllm",
            "fusions": "act_quant, allreduce_rms, norm_quant",
            "ir_op_priority": f"{IR_OPS})",
        },
    ),
    ("0.25.0", {"model_runner": "v2"}),
    ("0.28.0", {"requested_linear_backend": "auto"}),
    ("0.32.0", {"ir_op_priority": f"{IR_OPS}, gelu_and_mul_sparse=['native'])"}),
)
"""What each release began to say, or to say otherwise."""


def source(release: str) -> bytes:
    return (LOGS / f"synthetic-{release}-h100-tp4.log").read_bytes()


def record(release: str) -> ExecutionPath:
    return read_log(source(release).decode().splitlines())


def expected(release: str) -> dict[str, str]:
    told = {"runtime_version": release, **SAME}
    for since, more in SINCE:
        if RELEASES.index(since) <= RELEASES.index(release):
            told |= more
    return told


def observed(path: ExecutionPath) -> dict[str, str | None]:
    return {name: seen.value for name, seen in path.fields.items() if seen.state is State.OBSERVED}


@pytest.mark.parametrize("release", RELEASES)
def test_every_field_of_each_release(release: str) -> None:
    path = record(release)
    assert observed(path) == expected(release)
    assert path.whole
    assert path.fallbacks == ()
    assert not any(seen.by_rank for seen in path.fields.values())


@pytest.mark.parametrize("release", RELEASES)
def test_bytes_cut_anywhere_tell_the_same(release: str) -> None:
    whole = source(release)
    cut = [whole[at : at + 997] for at in range(0, len(whole), 997)]
    assert observed(read_chunks(cut)) == expected(release)


@pytest.mark.parametrize(("old", "new"), list(itertools.pairwise(RELEASES)))
def test_from_one_release_to_the_next_only_what_it_changed_differs(old: str, new: str) -> None:
    before, after = observed(record(old)), observed(record(new))
    began = dict(SINCE).get(new, {})
    assert {name for name in after if before.get(name) != after[name]} == {"runtime_version", *began}
    assert set(before) <= set(after)


def test_what_a_release_could_not_say_is_unknown_and_what_it_would_have_said_is_absent() -> None:
    oldest, middle, newest = record("0.11.0"), record("0.22.0"), record("0.32.0")
    assert oldest["fusions"].state is State.UNKNOWN, "0.11 names no fusions"
    assert oldest["model_runner"].state is State.UNKNOWN, "0.11 has one model runner"
    assert middle["model_runner"].state is State.ABSENT, "0.22 would have told of the new runner"
    assert newest["moe_backend"].state is State.ABSENT, "a dense model has no experts"
    assert all(newest[name].state is State.UNKNOWN for name in OUTSIDE)


def test_an_upgrade_is_a_short_list_of_changes_to_approve() -> None:
    lock = approve(record("0.28.0"), reason="in production", today=datetime.date(2026, 12, 1))
    assert {change.field for change in changes(record("0.32.0"), lock)} == {"runtime_version", "ir_op_priority"}
    assert changes(record("0.28.0"), lock) == ()
