"""What can be wrong with a simulated server, by name. Same fault, same seed: same bytes."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One row of the table. `default` is the value when the text gives none; None where it takes no value."""

    summary: str
    default: float | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault with its value (0 where the kind takes none)."""

    name: str
    value: float


FAULTS: Mapping[str, FaultKind] = {
    # the numbers inside the model
    "fp32_as_bf16": FaultKind("the fused all-reduce + RMSNorm reads FP32 norm weights as BF16; only where TP > 1"),
    "nan_logits": FaultKind("every logit is NaN"),
    "nan_rare": FaultKind("one request in N has NaN logits", 200),
    "noise": FaultKind("relative noise on the RMSNorm output", 0.05),
    "int8_weights": FaultKind("every weight is rounded to int8, a tensor at a time"),
    "fp8_kv_long": FaultKind("attention to tokens before the last N loses precision", 256),
    "one_rank_dead": FaultKind("the last tensor-parallel rank contributes nothing; only where TP > 1"),
    "tp_only": FaultKind("two tensor-parallel shards are swapped; only where TP > 1"),
    "uniform_noise": FaultKind("NaN rows are sanitised, so tokens are drawn uniformly"),
    "sentinel": FaultKind("NaN logits whose logprobs are written as -9999"),
    "stale_prompt_logprobs": FaultKind("cached positions keep the prompt logprobs of an earlier request"),
    "processed_logprobs": FaultKind("logprobs are those of the greedy sampler: 0 and -9999"),
    # what is said
    "loop": FaultKind("the answer repeats its first words until max_tokens"),
    "empty_text": FaultKind("only special tokens are generated, which the text leaves out"),
    "near_miss": FaultKind("the right answer, and a little more"),
    "refusal": FaultKind("the model declines"),
    "wrong_script": FaultKind("the answer is in a script that nobody used"),
    "truncated": FaultKind("answers stop after N tokens", 1),
    # a share of what is said, the same prompts each time
    "loop_rate": FaultKind("this share of the answers repeat their first words until max_tokens", 0.05),
    "success_drop": FaultKind("this share of the requests are declined", 0.1),
    "language_mix": FaultKind("this share of the answers go over into another script", 0.05),
    "baseline_flaky": FaultKind("this share of the requests are answered 503, also when they are repeated", 0.1),
    "broken_after": FaultKind("every logit is NaN from the request after the Nth on", 100),
    # how it is served
    "slow_start": FaultKind("not ready for N seconds", 3),
    "dies_at_start": FaultKind("the process dies while importing, as without FFmpeg"),
    "wrong_model": FaultKind("another model is served"),
    "tokenizer_mismatch": FaultKind("answers are decoded with another vocabulary"),
    "only_under_load": FaultKind("answers are wrong while at least N requests run", 4),
    "only_streaming": FaultKind("streams lose every second piece of text"),
    "http_500": FaultKind("every generation is answered 500"),
    "hang": FaultKind("generations are accepted and never answered"),
    "latency_only": FaultKind("every answer is right, and comes N seconds late", 0.1),
    # long context, structured output, tools, prefix cache
    "needle_lost_after": FaultKind("facts before the last N tokens are forgotten", 8000),
    "garbage_beyond": FaultKind("positions from N on attend to the wrong places: garbage is said there", 10_000),
    "edge_off_by_one": FaultKind("prompts of exactly a multiple of N tokens are answered with garbage", 4096),
    "json_truncated": FaultKind("JSON answers lack their end"),
    "json_trailing_spaces": FaultKind("JSON answers end in blanks until max_tokens"),
    "schema_ignored": FaultKind("response_format is accepted and ignored"),
    "int_as_string": FaultKind("integers in tool arguments arrive as texts"),
    "arg_dropped_in_stream": FaultKind("streamed tool arguments stop before their end"),
    "call_in_text": FaultKind("tool calls are left in the text"),
    "parallel_merged": FaultKind("of parallel tool calls only the first arrives"),
    "cache_stale_block": FaultKind("a prefix-cache hit reads another prompt's block"),
    "cache_never_hits": FaultKind("the prefix cache is on and never hits"),
    "salt_ignored": FaultKind("cache_salt does not separate prompts"),
}


def parse_fault(text: str) -> Fault:
    """`name` or `name:value`. Raises ValueError with the nearest name, or with what a value must be."""
    name, separator, value = text.partition(":")
    kind = FAULTS.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, FAULTS, n=1)
        meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(FAULTS))}"
        raise ValueError(f"there is no fault {name!r}; {meant}")
    if not separator:
        return Fault(name, kind.default or 0.0)
    if kind.default is None:
        raise ValueError(f"the fault {name!r} takes no value, so not {value!r}")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"the value of {name!r} is a number from 0 up, not {value!r}")
    return Fault(name, number)


class Faults:
    """The faults of one server: asked for by name."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._values = {fault.name: fault.value for fault in map(parse_fault, texts)}

    def __contains__(self, name: str) -> bool:
        assert name in FAULTS, name
        return name in self._values

    def value(self, name: str) -> float:
        """The fault's value. Raises KeyError when the server does not have it."""
        return self._values[name]

    def strikes(self, name: str, prompt: Sequence[int]) -> bool:
        """Whether a fault that hits a share of the requests hits this one, by its prompt's token ids alone."""
        if name not in self:
            return False
        ids = np.asarray(prompt, dtype=np.int64).tobytes()
        digest = hashlib.blake2b(name.encode() + ids, digest_size=8).digest()
        return int.from_bytes(digest, "big") < self._values[name] * 2**64
