"""What `[matrix]` declares, held against what the server says of itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vllm_gate.path.record import ExecutionPath, State

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}
_FUSIONS = {
    "fusion_allreduce_rms": "allreduce_rms",
    "fusion_static_quant": "norm_quant",
    "fusion_act_quant": "act_quant",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One key of `[matrix]`: declared, observed (None where it can't be seen), and whether they agree."""

    key: str
    declared: str
    observed: str | None
    agrees: bool


def compare(declared: Mapping[str, object], record: ExecutionPath) -> tuple[Declared, ...]:
    """Every declared key, in the order of the file."""
    return tuple(_one(key, value, record) for key, value in declared.items())


def _one(key: str, value: object, record: ExecutionPath) -> Declared:
    said = str(value).lower() if isinstance(value, bool) else str(value)
    observed = _OBSERVE.get(key, _plain)(key, record)
    agrees = observed is None or _AGREE.get(key, _same)(said, observed)
    return Declared(key=key, declared=said, observed=observed, agrees=agrees)


def _plain(key: str, record: ExecutionPath) -> str | None:
    return record[key].value if record[key].state is State.OBSERVED else None


def _fusion(key: str, record: ExecutionPath) -> str | None:
    """A server that enables no fusion prints no line about fusions."""
    fusions = record["fusions"]
    if fusions.state is State.UNKNOWN:
        return None
    return str(_FUSIONS[key] in (fusions.value or "").split(", ")).lower()


def _model_runner(_key: str, record: ExecutionPath) -> str | None:
    """Only V2 is announced."""
    seen = record["model_runner"]
    return None if seen.state is State.UNKNOWN else seen.value or "v1"


def _allreduce(_key: str, record: ExecutionPath) -> str | None:
    backends, fused = record["allreduce_backends"].value, record["allreduce_fusion_backend"].value
    parts = [part for part in (backends and f"{backends}", fused and f"flashinfer-{fused}") if part]
    return ", ".join(parts) or None


def _speculative(_key: str, record: ExecutionPath) -> str | None:
    seen = record["speculative_decoding"]
    return None if seen.state is not State.OBSERVED else str(seen.value not in ("None", None)).lower()


def _expert_parallel(_key: str, record: ExecutionPath) -> str | None:
    """Its size; a server without it prints no line about it."""
    seen = record["parallelism_ep"]
    return None if seen.state is State.UNKNOWN else seen.value or "1"


def _expert_size(declared: str, observed: str) -> bool:
    if declared in ("true", "false"):
        return (declared == "true") == (observed != "1")
    return declared == observed


def _same(declared: str, observed: str) -> bool:
    return _plain_word(declared) == _plain_word(observed)


def _version(declared: str, observed: str) -> bool:
    return declared.removeprefix("vllm-").removeprefix("v") == observed.partition("+")[0]


def _dtype(declared: str, observed: str) -> bool:
    return _DTYPES.get(declared, declared) == _DTYPES.get(observed, observed)


def _contains(declared: str, observed: str) -> bool:
    return _plain_word(declared) in _plain_word(observed) or _plain_word(observed) in _plain_word(declared)


def _quantization(declared: str, observed: str) -> bool:
    if declared in ("none", "bf16", "fp16"):
        return observed == "None"
    families = {"nvfp4": ("fp4", "nvfp4"), "fp8": ("fp8",), "mxfp4": ("mxfp4",)}
    return any(word in observed.lower() for word in families.get(declared.lower(), (declared.lower(),)))


def _plain_word(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


_OBSERVE: Mapping[str, Callable[[str, ExecutionPath], str | None]] = {
    **dict.fromkeys(_FUSIONS, _fusion),
    "model_runner": _model_runner,
    "allreduce_backend": _allreduce,
    "speculative_decoding": _speculative,
    "parallelism_ep": _expert_parallel,
}
_AGREE: Mapping[str, Callable[[str, str], bool]] = {
    "runtime_version": _version,
    "dtype_activation": _dtype,
    "dtype_rmsnorm_weight": _dtype,
    "attention_backend": _contains,
    "allreduce_backend": _contains,
    "moe_backend": _contains,
    "hardware": _contains,
    "parallelism_ep": _expert_size,
    "quantization": _quantization,
}
