"""Each rule of the table: its example gives its field, its near miss gives nothing of it."""

import re

import pytest

from vllm_gate.path.fallbacks import EXPLAINED, VOCABULARY, explanation, fallback_id, is_fallback
from vllm_gate.path.record import FIELDS, State, read_log
from vllm_gate.path.rules import Rule
from vllm_gate.path.table import RULES

EXPECTED = {
    "Resolved architecture: Qwen3ForCausalLM": "Qwen3ForCausalLM",
    "Using max model len 32768": "32768",
    "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN'].": "FLASHINFER",
    "Using FLASH_ATTN backend.": "FLASH_ATTN",
    "Using Flash Attention backend on V1 engine.": "FLASH_ATTN",
    "Using FlashAttention version 3": "3",
    "Initialized FlashInfer Allreduce norm quantization fusion workspace with backend=trtllm": "trtllm",
    "Enabled custom fusions: norm_quant, act_quant, allreduce_rms": "act_quant, allreduce_rms, norm_quant",
    "Selected CutlassFP8ScaledMMLinearKernel for ModelOptFp8LinearMethod": "CutlassFP8ScaledMMLinearKernel",
    "Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend out of potential backends: ['MARLIN'].": "FLASHINFER_CUTLASS",
    "Using V2 Model Runner": "v2",
    "Casting torch.bfloat16 to torch.float16.": "Casting torch.bfloat16 to torch.float16",
    "vLLM is using nccl==2.27.5": "2.27.5",
}
"""Values of examples, read by eye."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.field}: {rule.example[:40]}")
@pytest.mark.parametrize(
    "prefix", ["", "(Worker_TP0 pid=12) INFO 12-01 10:00:00 [x.py:7] ", "INFO 03-21 08:44:05 [config.py:1028] "]
)
def test_the_example_is_read_in_every_form_of_line(rule: Rule, prefix: str) -> None:
    seen = read_log([prefix + rule.example])[rule.field]
    assert seen.state is State.OBSERVED
    assert seen.value
    assert seen.line_number == 1
    if rule.example in EXPECTED:
        assert seen.value == EXPECTED[rule.example]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.field}: {rule.near_miss[:40]}")
def test_the_near_miss_is_not_taken_for_it(rule: Rule) -> None:
    assert not re.match(rule.pattern, rule.near_miss)


def test_every_field_of_a_rule_is_a_field_of_the_record() -> None:
    assert {rule.field for rule in RULES} <= set(FIELDS)


FALLBACKS = (
    "Failed to create oneDNN linear, fallback to torch linear. Exception: could not create a primitive descriptor",
    (
        "FlashInfer mnnvl allreduce workspace unavailable (likely no NVSwitch multicast support); falling back "
        "to trtllm backend for single node."
    ),
    "NVFP4 linear falling back to the slow and unoptimized emulation backend as no optimized backend is available",
    "Layer 'model.layers.7.mlp' is not supported by AutoAWQMarlin. Falling back to unoptimized AWQ kernels.",
    "TRTLLM prefill does not support DCP, reverting to FlashInfer",
    (
        "The current platform does not support native MXFP4 computation. Using EmulationMxfp4LinearKernel, "
        "with simulated weight dequantization"
    ),
    "Cannot use FA version 3 with ALiBi, defaulting to FA version 2.",
    (
        "--block-size 8 precluded higher-priority backend(s) ['FLASHINFER']. Using TRITON_ATTN instead, which may "
        "result in reduced performance."
    ),
    "Model Runner V2 requires Triton; using the V1 model runner instead.",
    "Model Runner V2 does not yet support pipeline parallelism; using the V1 model runner instead.",
    "Tried to force MarlinLinearKernel, but the kernel couldn't be implemented",
    "Op '+rms_nrom' %s, with 'x' has no effect",
    "Priority not set for op rms_norm, using native implementation.",
    "Op rms_norm: No implementation in priority list supports all args, execution fallback to native is possible.",
    "Failed to initialize Flashinfer allreduce workspace. Flashinfer allreduce-norm fusion will be disabled.",
    "Failed to initialize FlashInfer Allreduce norm fusion workspace with backend=trtllm",
    "Flashinfer is not installed or comm module not found, skipping allreduce fusion pass",
    "QK Norm+RoPE fusion not enabled: unsupported dtype torch.float16",
    "Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed.",
    "FlashInfer All Reduce is disabled because it is not supported for world_size=3.",
    (
        "Auto-disabled DeepGemm for model_type=qwen3_5 on Blackwell. DeepGemm E8M0 scale format causes accuracy "
        "degradation for this architecture. Falling back to CUTLASS."
    ),
    "Failed to lower vLLM IR ops: rms_norm",
    "Triton is installed but 0 active driver(s) found (expected 1). Disabling Triton to prevent runtime errors.",
    "MarlinMxFp4LinearKernel is a weight-only (A16) kernel; the requested activation quantization (mxfp8) is ignored.",
    "--linear-backend=cutlass has no kernel for this linear layer type; using automatic selection for that layer type.",
    (
        "Selected backend FLASH_ATTN is incompatible with this layer (head size) of the prefill run; using the "
        "auto-selected per-layer backend. Reason: head size"
    ),
    "VLLM_BATCH_INVARIANT overrides --linear-backend=cutlass; using the Triton backend for deterministic execution.",
    "Unknown vLLM IR op rms_nrom, there's likely an issue with torch registration",
    "eagle draft attention (FLASHINFER) does not support full CUDA graphs; running the draft eagerly.",
    "Two processes do not agree on the P2P access status on 0 -> 1, treat as disabled.",
    "HPC gated MLA disabled: only CUDA is supported.",
    "Found incompatible backend(s) [ROCM_ATTN] with sinks. Overriding with TRITON_ATTN out of potential backends: [].",
    "Disabling VLLM_TRITON_USE_TD for this MoE launch: K=100 is not a multiple of BLOCK_SIZE_K=64",
    "Fusion enabled but reshape elimination disabled. Allreduce + rms norm + quant (fp8) fusion might not work",
)
"""Messages in vLLM's words by which it gives up a path, and that somebody has to look at."""


@pytest.mark.parametrize("line", FALLBACKS)
def test_a_fallback_in_vllms_words_is_found_in_a_log_and_explained_by_nothing(line: str) -> None:
    (found,) = read_log([f"(Worker_TP1 pid=9) WARNING 12-01 10:00:00 [x.py:7] {line}"]).fallbacks
    assert (found.line, found.line_number, found.ranks, found.explanation) == (line, 1, ("TP1",), "")


@pytest.mark.parametrize("number", range(len(VOCABULARY)))
def test_each_row_of_the_vocabulary_is_needed_by_an_example(number: int) -> None:
    needle, pattern = VOCABULARY[number]
    explained = (
        "SymmMemCommunicator: symmetric memory is not available.",
        "Weight-only FP4 compression will be used leveraging the Marlin kernel.",
    )
    assert any(needle in line and re.search(pattern, line, re.IGNORECASE) for line in (*FALLBACKS, *explained))


@pytest.mark.parametrize(
    "line",
    [
        "AllReduce fusion pass is disabled for tp_size <= 1.",
        (
            "DeepGemm disabled due to unaligned problem size. M: 1, N: 2, K: 3. M should >= 128 and N and K must be "
            "multiples of 64. This is not an error and we will fall back to triton."
        ),
        (
            "DeepGemm disabled for N <= 512. M: 1, N: 2, K: 3. This means we will fallback to triton for this specific "
            "shape for further speed up."
        ),
        "FlashInfer 0.2.3+ does not support per-request generators. Falling back to PyTorch-native implementation.",
        "CPU unquantized GEMM dispatch: using torch.nn.functional.linear (fallback)",
        "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.",
        "SymmMemCommunicator: Device capability 8.9 not supported, communicator is not available.",
        "Custom quick allreduce is disabled because this process group spans across nodes.",
        (
            "Your GPU does not have native support for FP4 computation but FP4 quantization is being used. "
            "Weight-only FP4 compression will be used leveraging the Marlin kernel."
        ),
        "Triton is installed, but doesn't include CPU backend. Disabling Triton.",
    ],
)
def test_a_fallback_that_is_known_to_be_harmless_is_recorded_with_its_explanation(line: str) -> None:
    (found,) = read_log([line]).fallbacks
    assert found.explanation == explanation(line) != ""
    assert sum(bool(re.search(pattern, line)) for pattern, _ in EXPLAINED) == 1


@pytest.mark.parametrize(
    "line",
    [
        "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER'].",
        "Loading chat template fallback for qwen as there isn't one defined on HF Hub.",
        "Chunked prefill is enabled with max_num_batched_tokens=2048.",
        "Falling back on <BOS> for decoder start token id because decoder start token id is not available.",
        "HYV4ToolExtractor detected malformed tool output; falling back to raw content.",
        "Received request chatcmpl-1: prompt: 'please fall back to plan B'",
        'INFO:     127.0.0.1:4242 - "GET /v1/fallback HTTP/1.1" 404 Not Found',
        "    raise RuntimeError('falling back')",
        "Selected FlashInferCutlassNvFp4LinearKernel for ModelOptNvFp4LinearMethod",
        "The feedback loop is fine.",
    ],
)
def test_what_gives_up_no_way_of_computing_is_no_fallback(line: str) -> None:
    assert not is_fallback(line)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "Layer 'model.layers.7.mlp' is not supported by AutoAWQMarlin. Falling back to unoptimized AWQ kernels.",
            (
                "Layer 'model.layers.31.self_attn.o_proj' is not supported by AutoAWQMarlin. Falling back "
                "to unoptimized AWQ kernels."
            ),
        ),
        (
            "Failed to create oneDNN linear, fallback to torch linear. Exception: could not create a descriptor",
            "Failed to create oneDNN linear, fallback to torch linear. Exception: out of memory",
        ),
        (
            "Missing cached draft probabilities for request chatcmpl-8f3a0b; falling back to legacy behavior.",
            "Missing cached draft probabilities for request chatcmpl-91; falling back to legacy behavior.",
        ),
        (
            "Config file not found at /opt/a/b.json, falling back",
            "Config file not found at /usr/lib/python3.12/c/d.json, falling back",
        ),
    ],
)
def test_an_identity_leaves_out_what_differs_from_start_to_start(first: str, second: str) -> None:
    assert fallback_id(first) == fallback_id(second)


def test_identities_of_different_kinds_differ() -> None:
    assert len({fallback_id(line) for line in FALLBACKS}) == len(FALLBACKS)
