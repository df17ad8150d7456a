"""The prefix cache: the same prompt again is a hit and changes nothing; another salt keeps prompts apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.capability.distributions import moved
from vllm_gate.gates.capability.known import Known
from vllm_gate.gates.interface import Context
from vllm_gate.server.reply import Answer, Refusal, Reply

_HITS, _QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
_LENGTHS = (1200, 4800)
"""Tokens of the prompt: many blocks of an ordinary model; two of a hybrid one, whose blocks are as large as 2,096."""
_ITEM_TOKENS = 12
MOST_MOVED = 0.1
"""Total variation that recomputing in another batch may explain."""
OVER_NOISE = 5.0
"""How often the noise of two cold answers a hit may move the distribution, where that is more."""
ANSWER_TOKENS = 8
_TRIES = 3
"""Other traffic may move the counter between two looks at it: then all is asked again."""
_BLOCK = re.compile(r"attention block size to (\d+) tokens")


@dataclass(frozen=True, slots=True)
class Pass:
    """One request: how many prompt tokens came from the cache (None where nothing tells), and the answer."""

    hit: float | None
    reply: Reply


@dataclass(frozen=True, slots=True)
class Passes:
    """The same prompt cold, again, and under another salt."""

    first: Pass
    again: Pass
    other: Pass

    @property
    def tokens(self) -> int:
        """Length of the prompt, 0 where the server does not say."""
        return self.first.reply.usage.prompt_tokens or 0

    @property
    def noise(self) -> float | None:
        """How far two cold answers lie apart."""
        return moved(self.first.reply, self.other.reply)


def block_of(context: Context) -> int | None:
    """The attention block size that a hybrid model's start-up log names: shorter prefixes can't hit."""
    sizes = [int(found[1]) for line in (context.log.lines() if context.log else ()) if (found := _BLOCK.search(line))]
    return sizes[-1] if sizes else None


def ask_prefix_cache(context: Context, known: Known) -> Iterator[Finding]:
    """Miss, hit, and a miss under another salt, with equal answers."""
    if context.plan.services["under_test"].api == "anthropic":
        yield Finding(
            check="prefix_cache",
            verdict=Verdict.SKIPPED,
            message="not asked: the Anthropic messages API has no cache salt and no logprobs",
        )
        return
    block, window = block_of(context), known.window(context)
    longest = 0
    for tokens in sorted({*_LENGTHS, *([2 * block + 200] if block else [])}):
        if window is not None and 2 * tokens > window:
            break
        passes = _passes(context, tokens)
        if isinstance(passes, Finding):
            yield passes
            return
        longest = passes.tokens or tokens
        if passes.again.hit is None:
            yield _unseen(context)
            return
        if passes.again.hit > 0:
            yield _concluded(context, passes)
            return
    yield _never_hits(context, longest, block)


def _passes(context: Context, tokens: int) -> Passes | Finding:
    """The three requests, repeated while other traffic moves the server's counter."""
    for _ in range(_TRIES):
        found = _three(context, tokens)
        if isinstance(found, Refusal):
            return refused(context, found, "prefix_cache")
        if found is not None:
            return found
    return Finding(
        check="prefix_cache",
        verdict=Verdict.INCONCLUSIVE,
        symptom="hit_not_proved",
        message=f"other traffic moves {_HITS} at the same time, so that no hit can be told from it",
        remedy="Ask a server without traffic, or serve with --enable-prompt-tokens-details.",
    )


def _three(context: Context, tokens: int) -> Passes | Refusal | None:
    """None where the counter moved by more than the requests explain."""
    mark = f"{context.rng.integers(2**40):010x}"
    prompt = shared_text(mark, tokens) + " item"
    passes: list[Pass] = []
    for salt in ("one", "one", "other"):
        context.progress("prefix cache", len(passes), 3, "requests")
        before = _counters(context)
        answer = ask_cold(context, prompt, f"{mark}-{salt}")
        if isinstance(answer, Refusal):
            return answer
        after = _counters(context)
        sent = answer.usage.prompt_tokens
        if answer.usage.cached_tokens is not None:
            passes.append(Pass(float(answer.usage.cached_tokens), answer))
        elif before is None or after is None:
            passes.append(Pass(None, answer))
        elif sent is not None and after[1] - before[1] > sent:
            return None
        else:
            passes.append(Pass(after[0] - before[0], answer))
    return Passes(*passes)


def shared_text(mark: str, tokens: int) -> str:
    """About `tokens` tokens that no other request has: a list whose items name `mark`."""
    items = (f"item {number} of list {mark}," for number in range(max(tokens // _ITEM_TOKENS, 1)))
    return f"Continue the list. {' '.join(items)}"


def ask_cold(context: Context, prompt: str, salt: str) -> Answer:
    """A few tokens with the distributions behind them."""
    ask = context.under_test.complete
    answer = ask(prompt, max_tokens=ANSWER_TOKENS, logprobs=20, cache_salt=salt)
    if isinstance(answer, Refusal) and answer.status == 400 and "logprobs" in answer.message:
        return ask(prompt, max_tokens=ANSWER_TOKENS, logprobs=5, cache_salt=salt)
    return answer


def _counters(context: Context) -> tuple[float, float] | None:
    """Hit and queried tokens so far."""
    metrics = context.under_test.metrics() or {}
    return (metrics[_HITS], metrics.get(_QUERIES, 0.0)) if _HITS in metrics else None


def _concluded(context: Context, passes: Passes) -> Finding:
    first, again, other = passes.first, passes.again, passes.other
    change, noise = moved(first.reply, again.reply), passes.noise
    context.facts["prefix_cache"] = {
        "prompt_tokens": passes.tokens,
        "hits": [one.hit for one in (first, again, other)],
        "moved": change,
        "noise": noise,
    }
    evidence = (_evidence(passes),)
    location = context.plan.where("gate_config.gate_4_long_context.prefix_cache_check")
    limit = max(MOST_MOVED, OVER_NOISE * (noise or 0.0))
    if change is None and noise is None:
        return Finding(
            check="prefix_cache",
            verdict=Verdict.INCONCLUSIVE,
            symptom="answers_vary",
            message="the same prompt is answered differently each time, and without logprobs nothing tells noise from "
            "a wrong block",
            evidence=evidence,
            location=location,
            remedy="Ask vLLM itself, which gives logprobs, instead of a gateway.",
        )
    if change is None or change > limit:
        size = "" if change is None else f": the distributions move by {change:.2f}"
        return Finding(
            check="prefix_cache",
            verdict=Verdict.FAIL,
            symptom="cache_changes_answer",
            message=f"a prefix-cache hit changes the answer{size}, {first.reply.text[:40]!r} becomes "
            f"{again.reply.text[:40]!r}",
            measured=change,
            threshold=limit,
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
        message=f"miss, then a hit of {again.hit:.0f} tokens with the same answer, and a miss under another salt",
        measured=change,
        threshold=limit,
        unit="total variation",
        evidence=evidence,
    )


def _never_hits(context: Context, longest: int, block: int | None) -> Finding:
    """Not a failure: an answer is none the worse for it. But nothing was exercised, and somebody pays for it."""
    location = context.plan.where("gate_config.gate_4_long_context.prefix_cache_check")
    if not longest or (block and longest <= block):
        window = "two blocks fit" if block else f"{_LENGTHS[0]} tokens fit twice"
        return Finding(
            check="prefix_cache",
            verdict=Verdict.INCONCLUSIVE,
            symptom="window_too_small",
            message=f"the window is too small to exercise the prefix cache: not even {window}",
            location=location,
            remedy="Serve with a larger --max-model-len, or set prefix_cache_check to false.",
        )
    blocks = f"; the log sets attention blocks of {block} tokens, so longer prefixes could have hit" if block else ""
    return Finding(
        check="prefix_cache",
        verdict=Verdict.INCONCLUSIVE,
        symptom="cache_never_hits",
        message=f"the same prompt of {longest} tokens, sent twice with one salt, never hit the prefix cache{blocks}",
        location=location,
        remedy="Serve with --enable-prefix-caching; on some hybrid models it is accepted and never hits, so that every "
        "long prompt is computed anew. Or set prefix_cache_check to false.",
    )


def _unseen(context: Context) -> Finding:
    return Finding(
        check="prefix_cache",
        verdict=Verdict.INCONCLUSIVE,
        symptom="hit_not_proved",
        message="nothing proves a prefix-cache hit: no cached_tokens in answers, and no counter in /metrics",
        location=context.plan.where("gate_config.gate_4_long_context.prefix_cache_check"),
        remedy="Ask vLLM itself (its /metrics), or serve with --enable-prompt-tokens-details.",
    )


def refused(context: Context, answer: Refusal, check: str) -> Finding:
    """NaN is a failure; a gateway without completions can't be judged; anything else is an error."""
    nan = answer.says_nonfinite
    absent = answer.status in (404, 405, 501)
    return Finding(
        check=check,
        verdict=Verdict.FAIL if nan else Verdict.INCONCLUSIVE if absent else Verdict.ERROR,
        symptom="nan_logits" if nan else "no_completions" if absent else "no_answer",
        message=f"a completion with logprobs is refused: HTTP {answer.status}, {answer.message}",
        location=context.plan.where("gate_config.gate_4_long_context.prefix_cache_check"),
        remedy="The model computes NaN: see gate 2." if nan else "Read the server's log for this request.",
    )


def _evidence(passes: Passes) -> Evidence:
    rows: Mapping[str, Pass] = {
        "first": passes.first,
        "again, same salt": passes.again,
        "other salt": passes.other,
    }
    lines = [f"{name}: {one.hit} tokens from the cache; {one.reply.text[:60]!r}" for name, one in rows.items()]
    return Evidence(EvidenceKind.NOTE, f"three requests of {passes.tokens} tokens", "\n".join(lines))
