"""What a checkpoint says of its own number formats, from `config.json` and the headers of its safetensors files.

A safetensors file begins with the header's length (8 bytes, little endian) and the header as JSON: tensor name to
dtype, shape and offsets. No weight is read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from vllm_gate.path.sources import Reported

CONFIG = "config.json"
MODELOPT_CONFIG = "hf_quant_config.json"
LARGEST_HEADER = 100_000_000
"""Bytes; the format's own limit."""
_DTYPES = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "F8_E4M3": "fp8_e4m3", "U8": "uint8", "I8": "int8"}
_NORM = re.compile(r"(?:^|\.)(?:\w*norm\w*|ln_\w+)\.weight$")
_PLUS_ONE = re.compile(r"^(?:gemma|gemma2|gemma3|gemma3_text|qwen3_next|qwen3_5\w*|step3p5|rnj1)$")
"""Model types whose RMSNorm multiplies by 1 + weight, which vLLM computes in float32 whatever the checkpoint holds."""


def read_checkpoint(files: Mapping[str, bytes]) -> Reported:
    """Facts from the named files' first bytes. A file that can't be parsed tells nothing."""
    config = _object(files.get(CONFIG, b""))
    dtypes: Counter[str] = Counter()
    norms: set[str] = set()
    for name in sorted(files):
        if name.endswith(".safetensors"):
            for tensor, dtype, size in _tensors(files[name]):
                dtypes[dtype] += size
                if _NORM.search(tensor):
                    norms.add(dtype)
    facts = {}
    if dtypes:
        facts["dtype_weights"] = dtypes.most_common(1)[0][0]
    if norms:
        facts["dtype_rmsnorm_weight"] = "fp32" if _adds_one(config) else ", ".join(sorted(norms))
    if method := _quantization(config, _object(files.get(MODELOPT_CONFIG, b""))):
        facts["checkpoint_quantization"] = method
    return Reported("checkpoint", facts)


def header_of(start: bytes) -> bytes | None:
    """The header in a safetensors file's first bytes; None where they hold no whole one."""
    size = int.from_bytes(start[:8], "little")
    return start[8 : 8 + size] if len(start) >= 8 + size and 0 < size <= LARGEST_HEADER else None


def _tensors(start: bytes) -> Iterator[tuple[str, str, int]]:
    """Name, dtype and number of elements of each tensor."""
    for name, entry in _object(header_of(start) or b"").items():
        if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
            continue
        shape = entry.get("shape")
        size = 1
        for length in shape if isinstance(shape, list) else ():
            size *= length if isinstance(length, int) else 1
        yield name, _DTYPES.get(entry["dtype"], entry["dtype"].lower()), size


def _adds_one(config: Mapping[str, Any]) -> bool:
    inner = config.get("text_config")
    kinds = (config.get("model_type"), inner.get("model_type") if isinstance(inner, dict) else None)
    return any(isinstance(kind, str) and _PLUS_ONE.match(kind) for kind in kinds)


def _quantization(config: Mapping[str, Any], modelopt: Mapping[str, Any]) -> str:
    """The method, and the algorithm where ModelOpt names one: `modelopt NVFP4`."""
    stated = config.get("quantization_config")
    told = stated if isinstance(stated, dict) else {}
    also = modelopt.get("quantization")
    algorithm = told.get("quant_algo") or (also.get("quant_algo") if isinstance(also, dict) else None)
    method = told.get("quant_method") or ("modelopt" if algorithm else None)
    return " ".join(str(part) for part in (method, algorithm) if part)


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
