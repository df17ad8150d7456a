"""Declared and observed quantisation are compared by meaning."""

from __future__ import annotations

import pytest

from vllm_gate.judge.quantization import agree, is_unquantized, kind_in_name


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("nvidia/Qwen3.6-27B-NVFP4", "nvfp4"),
        ("Qwen/Qwen3-8B-FP8", "fp8"),
        ("TheBloke/Llama-2-7B-AWQ", "awq"),
        ("org/model-w4a16-g128", "int4"),
        ("org/model_bnb", "bnb"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", ""),
        ("openai/gpt-oss-20b", ""),
    ],
)
def test_a_models_name_may_state_its_quantisation(model: str, kind: str) -> None:
    assert kind_in_name(model) == kind


@pytest.mark.parametrize(
    ("declared", "observed"),
    [
        ("nvfp4", "modelopt_fp4"),
        ("NVFP4", "compressed-tensors"),
        ("fp8", "fp8"),
        ("fp8", "modelopt"),
        ("awq", "awq_marlin"),
        ("w8a8", "compressed-tensors"),
        ("modelopt_fp4", "modelopt_fp4"),
        ("bnb", "bitsandbytes"),
        ("none", "None"),
        ("bf16", ""),
    ],
)
def test_names_of_the_same_thing_agree(declared: str, observed: str) -> None:
    assert agree(declared, observed)


@pytest.mark.parametrize(
    ("declared", "observed"),
    [("nvfp4", "None"), ("nvfp4", "fp8"), ("fp8", "awq_marlin"), ("none", "fp8"), ("awq", "gptq_marlin"), ("x", "y")],
)
def test_different_things_do_not(declared: str, observed: str) -> None:
    assert not agree(declared, observed)


def test_no_quantisation_has_several_names() -> None:
    assert is_unquantized("None")
    assert is_unquantized(" bf16 ")
    assert not is_unquantized("fp8")
