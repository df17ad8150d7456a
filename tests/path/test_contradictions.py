"""Each contradiction has a log that shows it, and one that is nearly the same and does not."""

import pytest

from vllm_gate.path.contradictions import RULES, contradictions
from vllm_gate.path.record import read_log


def log(*more: str, engine: str = "") -> list[str]:
    config = {
        "model": "'m'",
        "dtype": "torch.bfloat16",
        "tensor_parallel_size": "4",
        "quantization": "modelopt_fp4",
        "enforce_eager": "False",
        "kv_cache_dtype": "auto",
        "disable_custom_all_reduce": "False",
        "enable_prefix_caching": "False",
    }
    config |= dict(part.split("=") for part in engine.split(", ") if part)
    line = ", ".join(f"{key}={value}" for key, value in config.items())
    return [f"Initializing a V1 LLM engine (v0.32.0) with config: {line}", *more, "Application startup complete."]


FUSIONS = "Enabled custom fusions: norm_quant, allreduce_rms"
NO_WORKSPACE = "Failed to initialize FlashInfer Allreduce norm fusion workspace with backend=trtllm"
NO_DEEPGEMM = "Auto-disabled DeepGemm for model_type=qwen3_5 on Blackwell. Falling back to CUTLASS."
DEEPGEMM = "Using DEEPGEMM Fp8 MoE backend out of potential backends: ['TRITON']."
NVFP4 = "Using FlashInferCutlassNvFp4LinearKernel for NVFP4 GEMM"
TO_FP16 = "Casting torch.bfloat16 to torch.float16."
SCALES = "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale are set."
GRAPHS = "Graph capturing finished in 12 secs, took 0.63 GiB"
NO_PREFIX = "Disabling prefix caching: model has non-causal attention layers."
ASKED = "non-default args: {'model_tag': 'm', 'attention_backend': 'FLASHINFER'}"
GOT = "Using {} attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN']."
ALLREDUCE = "Using [{}] all-reduce backends (in dispatch order) for group 'tp:0' out of potential backends: ['CUSTOM']."
SIMULATED = "Simulating MoE routing using a uniform_random strategy. This should only be used for performance testing."

CASES: dict[str, tuple[list[str], list[str]]] = {
    "fusion_without_workspace": (log(FUSIONS, NO_WORKSPACE), log("Enabled custom fusions: norm_quant", NO_WORKSPACE)),
    "deepgemm_disabled_and_used": (log(NO_DEEPGEMM, DEEPGEMM), log(DEEPGEMM)),
    "quantised_kernels_without_quantisation": (log(NVFP4, engine="quantization=None"), log(NVFP4)),
    "cast_to_fp16": (log(TO_FP16), log("Upcasting torch.float16 to torch.float32.")),
    "fp8_cache_without_scales": (log(SCALES, engine="kv_cache_dtype=fp8"), log(engine="kv_cache_dtype=fp8")),
    "graphs_in_eager_mode": (log(GRAPHS, engine="enforce_eager=True"), log(GRAPHS)),
    "prefix_caching_on_and_off": (log(NO_PREFIX, engine="enable_prefix_caching=True"), log(NO_PREFIX)),
    "requested_attention_backend_not_used": (
        [ASKED, *log(GOT.format("TRITON_ATTN"))],
        [ASKED, *log(GOT.format("FLASHINFER"), GOT.format("TRITON_ATTN"))],
    ),
    "custom_allreduce_disabled_and_used": (
        log(ALLREDUCE.format("'CUSTOM', 'PYNCCL'"), engine="disable_custom_all_reduce=True"),
        log(ALLREDUCE.format("'PYNCCL'"), engine="disable_custom_all_reduce=True"),
    ),
    "routing_is_simulated": (log(SIMULATED), log("Using MoE routing")),
}
"""By rule: the log that shows it, and its near miss. One more rule needs the checkpoint: see test_sources.py."""


def test_every_rule_has_its_case() -> None:
    assert {rule.name for rule in RULES} - set(CASES) == {"quantised_checkpoint_without_quantisation"}


@pytest.mark.parametrize("name", CASES)
def test_a_contradiction_is_found_with_the_lines_that_say_it(name: str) -> None:
    source, near_miss = CASES[name]
    (found,) = contradictions(read_log(source))
    assert found.name == name
    assert found.lines
    assert all(source[number - 1].startswith(line[:80]) for number, line in found.lines)
    assert contradictions(read_log(near_miss)) == ()


def test_workers_that_disagree_contradict_each_other() -> None:
    said = ["(Worker_TP0 pid=1) INFO 12-01 10:00:00 [a.py:1] " + GOT.format("FLASHINFER")]
    said += ["(Worker_TP1 pid=2) INFO 12-01 10:00:00 [a.py:1] " + GOT.format("TRITON_ATTN")]
    (found,) = contradictions(read_log(said))
    assert found.name == "ranks_disagree_attention_backend"
    assert found.sentence == "workers disagree on attention_backend (TP0 FLASHINFER, TP1 TRITON_ATTN)"
