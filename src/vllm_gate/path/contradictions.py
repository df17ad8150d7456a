"""Statements of one server that can't both be true, or that together mean wrong numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vllm_gate.path.record import ExecutionPath, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """One that was found. `lines` are the lines of the log that say it, with their numbers."""

    name: str
    sentence: str
    lines: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """When it applies: `applies` is asked of the record. `fields` and `words` (of a fallback) lead to its lines."""

    name: str
    sentence: str
    applies: Callable[[ExecutionPath], bool]
    fields: tuple[str, ...]
    words: str = ""


def _value(record: ExecutionPath, name: str) -> str:
    return record[name].value or ""


def _fell(record: ExecutionPath, words: str) -> bool:
    return any(words.lower() in fallback.line.lower() for fallback in record.fallbacks)


def _requested(record: ExecutionPath) -> bool:
    wanted, got = _value(record, "requested_attention_backend"), _value(record, "attention_backend")
    return bool(wanted and got) and wanted not in got.replace(" | ", ", ").split(", ")


RULES: tuple[Rule, ...] = (
    Rule(
        "fusion_without_workspace",
        "the all-reduce + RMSNorm fusion is enabled, but its workspace could not be initialised",
        lambda r: "allreduce_rms" in _value(r, "fusions") and _fell(r, "failed to initialize flashinfer all"),
        ("fusions",),
        "failed to initialize flashinfer all",
    ),
    Rule(
        "deepgemm_disabled_and_used",
        "DeepGEMM was disabled automatically, and is the MoE backend all the same",
        lambda r: "DEEPGEMM" in _value(r, "moe_backend").upper() and _fell(r, "auto-disabled deepgemm"),
        ("moe_backend",),
        "auto-disabled deepgemm",
    ),
    Rule(
        "quantised_kernels_without_quantisation",
        "the engine says quantization=None, but quantised kernels or layers were made",
        lambda r: (
            _value(r, "quantization") == "None"
            and ("Fp4" in _value(r, "linear_kernels") or r["layers_quantised_online"].state is State.OBSERVED)
        ),
        ("quantization", "linear_kernels", "layers_quantised_online"),
    ),
    Rule(
        "quantised_checkpoint_without_quantisation",
        "the checkpoint is quantised, but the engine says quantization=None",
        lambda r: _value(r, "quantization") == "None" and r["checkpoint_quantization"].state is State.OBSERVED,
        ("quantization", "checkpoint_quantization"),
    ),
    Rule(
        "cast_to_fp16",
        "a bfloat16 checkpoint is computed in float16, whose range ends at 65504: activations may overflow to NaN",
        lambda r: "bfloat16 to torch.float16" in _value(r, "dtype_cast"),
        ("dtype_cast",),
    ),
    Rule(
        "fp8_cache_without_scales",
        "the KV cache is FP8 and its scaling factors are 1.0: the checkpoint brought none",
        lambda r: _value(r, "dtype_kv_cache").startswith("fp8") and "factor 1.0" in _value(r, "kv_cache_scales"),
        ("dtype_kv_cache", "kv_cache_scales"),
    ),
    Rule(
        "graphs_in_eager_mode",
        "enforce_eager is set, and CUDA graphs were captured all the same",
        lambda r: _value(r, "enforce_eager") == "True" and _value(r, "cudagraphs_captured") == "yes",
        ("enforce_eager", "cudagraphs_captured"),
    ),
    Rule(
        "prefix_caching_on_and_off",
        "the engine says enable_prefix_caching=True, and a layer or the scheduler switched it off",
        lambda r: _value(r, "prefix_caching") == "True" and r["prefix_caching_disabled"].state is State.OBSERVED,
        ("prefix_caching", "prefix_caching_disabled"),
    ),
    Rule(
        "requested_attention_backend_not_used",
        "an attention backend was asked for, and another one was chosen",
        _requested,
        ("requested_attention_backend", "attention_backend"),
    ),
    Rule(
        "custom_allreduce_disabled_and_used",
        "the custom all-reduce is disabled, and in the list of all-reduce backends in use all the same",
        lambda r: (
            _value(r, "custom_allreduce_disabled") == "True"
            and "CUSTOM" in _value(r, "allreduce_backends").replace(" | ", ", ").split(", ")
        ),
        ("custom_allreduce_disabled", "allreduce_backends"),
    ),
    Rule(
        "routing_is_simulated",
        "expert routing is simulated for a performance test: the model's outputs are not valid",
        lambda r: r["routing"].state is State.OBSERVED,
        ("routing",),
    ),
)


def contradictions(record: ExecutionPath) -> tuple[Contradiction, ...]:
    """The rules that apply, workers that do not agree with each other, and sources that do not."""
    return tuple(_found(record))


def _found(record: ExecutionPath) -> Iterator[Contradiction]:
    for rule in RULES:
        if rule.applies(record):
            yield Contradiction(name=rule.name, sentence=rule.sentence, lines=_lines(record, rule))
    for name, seen in record.fields.items():
        if seen.by_rank:
            values = ", ".join(f"{rank} {value}" for rank, value in seen.by_rank.items())
            yield Contradiction(
                name=f"ranks_disagree_{name}",
                sentence=f"workers disagree on {name} ({values})",
                lines=((seen.line_number, seen.line),),
            )
    for sentence in record.disagreements:
        name = sentence.split(" ", 1)[0]
        yield Contradiction(name=f"sources_disagree_{name}", sentence=f"{sentence}: is this the log of this server?")


def _lines(record: ExecutionPath, rule: Rule) -> tuple[tuple[int, str], ...]:
    said = {(record[name].line_number, record[name].line) for name in rule.fields if record[name].line_number}
    if rule.words:
        said |= {(one.line_number, one.line) for one in record.fallbacks if rule.words in one.line.lower()}
    return tuple(sorted(said))
