"""Two lines of one log that can't both be true, or that together mean wrong numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vllm_gate.path.record import ExecutionPath


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One rule: when it applies, and what it means."""

    name: str
    applies: Callable[[ExecutionPath], bool]
    sentence: str


def _value(record: ExecutionPath, name: str) -> str:
    return record[name].value or ""


def _fell(record: ExecutionPath, *words: str) -> bool:
    return any(all(word.lower() in fallback.line.lower() for word in words) for fallback in record.fallbacks)


RULES: tuple[Contradiction, ...] = (
    Contradiction(
        "fusion_without_workspace",
        lambda r: "allreduce_rms" in _value(r, "fusions") and _fell(r, "failed to initialize", "allreduce"),
        "the all-reduce + RMSNorm fusion is enabled, but its workspace could not be initialised",
    ),
    Contradiction(
        "deepgemm_disabled_and_used",
        lambda r: "DEEPGEMM" in _value(r, "moe_backend").upper() and _fell(r, "auto-disabled", "deepgemm"),
        "DeepGEMM was disabled automatically, and is the MoE backend all the same",
    ),
    Contradiction(
        "quantised_kernels_without_quantisation",
        lambda r: _value(r, "quantization") == "None" and "Fp4" in _value(r, "linear_kernels"),
        "the engine says quantization=None, but FP4 kernels were selected",
    ),
    Contradiction(
        "cast_to_fp16",
        lambda r: "bfloat16 to torch.float16" in _value(r, "dtype_cast"),
        "a bfloat16 checkpoint is computed in float16, whose range ends at 65504: activations may overflow to NaN",
    ),
    Contradiction(
        "fp8_cache_without_scales",
        lambda r: _value(r, "dtype_kv_cache").startswith("fp8") and _fell(r, "scaling factor 1.0"),
        "the KV cache is FP8 and its scaling factors are 1.0: the checkpoint brought none",
    ),
    Contradiction(
        "graphs_in_eager_mode",
        lambda r: _value(r, "enforce_eager") == "True" and _value(r, "cudagraphs_captured") == "yes",
        "enforce_eager is set, and CUDA graphs were captured all the same",
    ),
)


def contradictions(record: ExecutionPath) -> tuple[Contradiction, ...]:
    """The rules that apply, and ranks that do not agree with each other."""
    found = [rule for rule in RULES if rule.applies(record)]
    for name, seen in record.fields.items():
        if seen.by_rank:
            values = ", ".join(f"rank {rank}: {value}" for rank, value in sorted(seen.by_rank.items()))
            found.append(
                Contradiction(f"ranks_disagree_{name}", lambda _: True, f"ranks disagree on {name} ({values})")
            )
    return tuple(found)
