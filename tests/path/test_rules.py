"""Each rule of the table: its example gives its field, its near miss gives nothing of it."""

import pytest

from vllm_gate.path.fallbacks import HARMLESS, is_fallback
from vllm_gate.path.record import FIELDS, State, read_log
from vllm_gate.path.rules import RULES, Rule

EXPECTED = {
    "Resolved architecture: Qwen3ForCausalLM": "Qwen3ForCausalLM",
    "Using max model len 32768": "32768",
    "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN'].": "FLASHINFER",
    "Using FLASH_ATTN backend.": "FLASH_ATTN",
    "Using Flash Attention backend on V1 engine.": "FLASH_ATTENTION",
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
    assert not rule.compiled().search(rule.near_miss)


def test_every_field_of_a_rule_is_a_field_of_the_record() -> None:
    assert {rule.field for rule in RULES} <= set(FIELDS)


@pytest.mark.parametrize(
    "line",
    [
        "Failed to create oneDNN linear, fallback to torch linear. Exception: could not create a primitive descriptor",
        "FlashInfer mnnvl allreduce workspace unavailable (likely no NVSwitch); falling back to trtllm backend",
        "NVFP4 linear falling back to the slow and unoptimized emulation backend as no optimized backend is available",
        "Cannot use FA version 3 with ALiBi, defaulting to FA version 2.",
        "Model Runner V2 requires Triton; using the V1 model runner instead.",
        "Tried to force MarlinLinearKernel, but the kernel couldn't be implemented",
        "Op '+rms_nrom' %s, with 'x' has no effect",
        "Failed to initialize Flashinfer allreduce workspace. Flashinfer allreduce-norm fusion will be disabled.",
    ],
)
def test_fallbacks_in_vllms_words(line: str) -> None:
    assert is_fallback(line)


@pytest.mark.parametrize(
    "line",
    [
        "AllReduce fusion pass is disabled for tp_size <= 1.",
        "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER'].",
        "Loading chat template fallback for qwen as there isn't one defined on HF Hub.",
        "Chunked prefill is enabled with max_num_batched_tokens=2048.",
        "DeepGemm disabled for N <= 512. This means we will fallback to triton for this specific shape for speed",
    ],
)
def test_ordinary_lines_are_none(line: str) -> None:
    assert not is_fallback(line)


def test_each_harmless_message_has_a_reason() -> None:
    assert all(reason for _, reason in HARMLESS)
