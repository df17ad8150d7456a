"""The prefix cache: the same prompt again is a hit and changes nothing; another salt keeps prompts apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.interface import Context
from vllm_gate.server.reply import Refusal, Reply

_HITS = "vllm:prefix_cache_hits_total"
_LENGTHS = (600, 2400)
"""Words of the prompt: several blocks of an ordinary model, then of a hybrid one, whose blocks are large."""
_MOST_MOVED = 0.1
"""Total variation of the first token's distribution that recomputing in another batch may explain."""
_ANSWER_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Pass:
    """One request: how many prompt tokens came from the cache (None where nothing tells), and the answer."""

    hit: float | None
    reply: Reply


def ask_prefix_cache(context: Context, window: int | None) -> Iterator[Finding]:
    """Miss, hit, and a miss under another salt, with equal answers."""
    words = 0
    for words in _LENGTHS:
        if window is not None and 2 * words > window:
            break
        passes = _passes(context, words)
        if isinstance(passes, Finding):
            yield passes
            return
        first, second, other = passes
        if second.hit is None:
            yield _unseen(context)
            return
        if second.hit > 0:
            yield _concluded(context, first, second, other)
            return
    yield Finding(
        check="prefix_cache",
        verdict=Verdict.INCONCLUSIVE,
        symptom="cache_never_hits",
        message=f"the same prompt of about {words} words, sent twice with one salt, never hit the prefix cache",
        location=context.plan.where("gate_config.gate_4_long_context.prefix_cache_check"),
        remedy="Serve with --enable-prefix-caching; on hybrid models only prefixes longer than the attention block "
        "size that the log names can hit. Or set prefix_cache_check to false.",
    )


def _passes(context: Context, words: int) -> tuple[Pass, Pass, Pass] | Finding:
    mark = f"{context.rng.integers(2**40):010x}"
    numbers = " ".join(f"item {number} of list {mark}," for number in range(words // 5))
    prompt = f"Continue the list. {numbers} item"
    passes: list[Pass] = []
    for salt in ("one", "one", "other"):
        context.progress("prefix cache", len(passes), 3, "requests")
        before = _hits(context)
        answer = context.under_test.complete(prompt, max_tokens=_ANSWER_TOKENS, logprobs=5, cache_salt=f"{mark}-{salt}")
        if isinstance(answer, Refusal):
            return _refused(answer)
        passes.append(Pass(_hit(answer, before, _hits(context)), answer))
    return passes[0], passes[1], passes[2]


def _hits(context: Context) -> float | None:
    return (context.under_test.metrics() or {}).get(_HITS)


def _hit(reply: Reply, before: float | None, after: float | None) -> float | None:
    """By the answer's own account where it gives one, else by the server's counter."""
    if reply.usage.cached_tokens is not None:
        return float(reply.usage.cached_tokens)
    return after - before if before is not None and after is not None else None


def _concluded(context: Context, first: Pass, second: Pass, other: Pass) -> Finding:
    context.facts["prefix_cache"] = {"hits": [one.hit for one in (first, second, other)]}
    moved = _moved(first.reply, second.reply)
    evidence = (_evidence(first, second, other),)
    location = context.plan.where("gate_config.gate_4_long_context.prefix_cache_check")
    if moved > _MOST_MOVED or first.reply.text[:1] != second.reply.text[:1]:
        return Finding(
            check="prefix_cache",
            verdict=Verdict.FAIL,
            symptom="cache_changes_answer",
            message="a prefix-cache hit changes the answer: the first token's distribution moves by "
            f"{moved:.2f}, {first.reply.text[:40]!r} becomes {second.reply.text[:40]!r}",
            measured=moved,
            threshold=_MOST_MOVED,
            unit="total variation",
            evidence=evidence,
            location=location,
            remedy="Do not release with prefix caching: a hit reads wrong or stale blocks. Serve with "
            "--no-enable-prefix-caching until it is understood.",
        )
    if other.hit:
        return Finding(
            check="prefix_cache",
            verdict=Verdict.FAIL,
            symptom="salt_ignored",
            message=f"another cache_salt hits the same blocks ({other.hit:.0f} tokens): tenants are not kept apart",
            measured=other.hit,
            threshold=0.0,
            unit="tokens",
            evidence=evidence,
            location=location,
            remedy="Do not rely on cache_salt on this server; check its version (the field exists since vLLM 0.9).",
        )
    return Finding(
        check="prefix_cache",
        verdict=Verdict.PASS,
        message=f"miss, then a hit of {second.hit:.0f} tokens with the same answer, and a miss under another salt",
        measured=moved,
        threshold=_MOST_MOVED,
        unit="total variation",
        evidence=evidence,
    )


def _moved(first: Reply, second: Reply) -> float:
    """Total variation between the first tokens' listed distributions; 0 where none are given."""
    if not first.logprobs or not second.logprobs:
        return 0.0
    a, b = ({t: math.exp(p) for t, p in one.logprobs[0].top.items()} for one in (first, second) if one.logprobs)
    common = a.keys() & b.keys()
    rest = (1 - sum(a[t] for t in common)) - (1 - sum(b[t] for t in common))
    return 0.5 * (sum(abs(a[t] - b[t]) for t in common) + abs(rest)) if common else 1.0


def _unseen(context: Context) -> Finding:
    return Finding(
        check="prefix_cache",
        verdict=Verdict.INCONCLUSIVE,
        symptom="hit_not_proved",
        message="nothing proves a prefix-cache hit: no cached_tokens in answers, and no counter in /metrics",
        location=context.plan.where("gate_config.gate_4_long_context.prefix_cache_check"),
        remedy="Ask vLLM itself (its /metrics), or serve with --enable-prompt-tokens-details.",
    )


def _refused(answer: Refusal) -> Finding:
    nan = answer.says_nonfinite
    return Finding(
        check="prefix_cache",
        verdict=Verdict.FAIL if nan else Verdict.ERROR,
        symptom="nan_logits" if nan else "no_answer",
        message=f"a completion with logprobs is refused: HTTP {answer.status}, {answer.message}",
        remedy="The model computes NaN: see gate 2." if nan else "Read the server's log for this request.",
    )


def _evidence(*passes: Pass) -> Evidence:
    names = ("first", "again, same salt", "other salt")
    rows: Mapping[str, Pass] = dict(zip(names, passes, strict=True))
    lines = [f"{name}: {one.hit} tokens from the cache; {one.reply.text[:60]!r}" for name, one in rows.items()]
    return Evidence(EvidenceKind.NOTE, "three requests", "\n".join(lines))
