"""Whether a server's quantisation is the declared one, across the names that checkpoints and vLLM give it."""

from __future__ import annotations

import re
from collections.abc import Mapping

_CONTAINERS = frozenset({"compressed-tensors", "compressed_tensors", "modelopt", "modelopt_mixed", "quark"})
"""Checkpoint formats that hold several kinds of quantisation under one name."""

_METHODS: Mapping[str, frozenset[str]] = {
    "nvfp4": frozenset({"modelopt_fp4", "petit_nvfp4", "fp4"}) | _CONTAINERS,
    "mxfp4": frozenset({"gpt_oss_mxfp4"}) | _CONTAINERS,
    "mxfp8": frozenset({"modelopt_mxfp8"}) | _CONTAINERS,
    "fp8": frozenset({"fbgemm_fp8", "ptpc_fp8", "fp8_per_tensor", "fp8_per_block"}) | _CONTAINERS,
    "awq": frozenset({"awq_marlin", "auto_awq", "compressed-tensors"}),
    "gptq": frozenset({"gptq_marlin", "gptq_bitblas", "auto_gptq", "compressed-tensors"}),
    "int8": frozenset({"experts_int8", "bitsandbytes", "int8_per_token_head"}) | _CONTAINERS,
    "int4": frozenset({"gptq", "gptq_marlin", "awq", "awq_marlin", "auto-round", "inc"}) | _CONTAINERS,
    "bnb": frozenset({"bitsandbytes"}),
    "gguf": frozenset(),
}
"""Kind, as model names and people write it, to the further method names under which vLLM serves it."""

_SYNONYMS: Mapping[str, str] = {"w8a8": "int8", "w8a16": "int8", "w4a16": "int4", "w4a8": "int4", "bitsandbytes": "bnb"}
_NONE = frozenset({"", "none", "null", "unquantized", "unquantised", "bf16", "bfloat16", "fp16", "float16"})


def kind_in_name(model: str) -> str:
    """The kind of quantisation that a model's name states ("nvidia/Qwen3.6-27B-NVFP4": "nvfp4"), else ""."""
    words = re.split(r"[^a-z0-9]+", model.lower())
    return next((kind for word in words if (kind := _SYNONYMS.get(word, word)) in _METHODS), "")


def is_unquantized(method: str) -> bool:
    """Whether a declared or observed name means that there is no quantisation."""
    return method.strip().lower() in _NONE


def agree(declared: str, observed: str) -> bool:
    """Whether a server that calls its quantisation `observed` may serve what was `declared`."""
    if is_unquantized(declared) and is_unquantized(observed):
        return True
    wanted, seen = declared.strip().lower(), observed.strip().lower()
    wanted = _SYNONYMS.get(wanted, wanted)
    return wanted == _SYNONYMS.get(seen, seen) or seen in _METHODS.get(wanted, frozenset())
