"""Generated tokens' distributions behind longer and longer texts, held against the baseline's.

A fault beyond some position (a KV cache in too few bits, a window, a kernel for long sequences) shows as a step: short
texts agree and long ones do not. Facts may still be found where the numbers are already off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import answer_evidence
from vllm_gate.gates.capability.known import Known, baseline_of, window_of
from vllm_gate.gates.consistency.tracing import NonFiniteError, Tracer, prose
from vllm_gate.gates.interface import Context
from vllm_gate.judge.least_variation import least_total_variation
from vllm_gate.judge.step import LIMIT, Step, find_step
from vllm_gate.judge.trace import Trace, shared_decoding
from vllm_gate.server.interface import Service

CHECK = "depth_drift"
_SHORTEST = 128
_BESIDE = 5
"""Tokens before the round numbers at which blocks and chunks end: a fault at an edge is not one of depth."""
_PARTS = 4
"""Places within each configured length."""
_TEXTS = 2
_GENERATED = 16
_WORTH_A_WARNING = 0.005
"""A step as small as this blocks nothing and is told."""
_APART = 1.2
"""Places closer than this ratio tell nothing more."""


def ask_depth(context: Context, known: Known) -> Iterator[Finding]:
    """The same token ids to both, cut at several places; each goes on in its own words."""
    baseline = baseline_of(context)
    if baseline is None:
        yield _skipped("there is no live baseline whose logprobs the release's could be held against")
        return
    try:
        yield _compared(context, known, baseline)
    except NonFiniteError as proof:
        yield _nan(context, proof)


def places(lengths: Sequence[int], window: int | None) -> list[int]:
    """Numbers of tokens after which both sides go on, up to the longest length that fits."""
    fitting = [length for length in lengths if window is None or length + _GENERATED <= window]
    longest = {length - _BESIDE for length in fitting}
    parts = {length * part // _PARTS - _BESIDE for length in fitting for part in range(1, _PARTS)}
    kept: list[int] = []
    for place in sorted({_SHORTEST - _BESIDE, *parts, *longest}):
        if not kept or place >= _APART * kept[-1]:
            kept.append(place)
        elif place in longest:
            kept[-1] = place
    return kept


def _compared(context: Context, known: Known, baseline: Service) -> Finding:
    windows = [size for size in (known.window(context), window_of(baseline)) if size is not None]
    wanted = places(context.plan.gates.long_context.context_lengths, min(windows, default=None))
    if len(wanted) < 2:
        return _skipped("no configured length fits both the release and the baseline")
    ours, theirs = (_tracer(context, service) for service in (context.under_test, baseline))
    try:
        short = _ids(context, _SHORTEST)
        if not short:
            return _skipped(f"{context.under_test.name} has no /tokenize")
        for side in (theirs, ours):  # a side without logprobs is asked nothing long
            if side.continuations([("probe", short[:_SHORTEST])], 1)[0].decoded is None:
                return _skipped("; ".join(side.can.limits))
        texts = [_ids(context, wanted[-1]) for _ in range(_TEXTS)]
        prompts = [(f"{number}-{place}", ids[:place]) for place in wanted for number, ids in enumerate(texts)]
        led, followed = (side.continuations(prompts, _GENERATED) for side in (theirs, ours))
    except NonFiniteError:
        raise
    except CouldNotJudge as error:
        return Finding(check=CHECK, verdict=Verdict.ERROR, message=f"logprobs at depth: {error}", remedy=error.hint)
    return _judged(context, [(trace.start, _moved(trace, other)) for trace, other in zip(led, followed, strict=True)])


def _tracer(context: Context, service: Service) -> Tracer:
    salt = f"depth-{context.rng.integers(2**48):012x}"
    concurrency = context.plan.gates.long_context.concurrency
    return Tracer(service, concurrency=concurrency, salt=salt, progress=context.progress)


def _ids(context: Context, tokens: int) -> tuple[int, ...]:
    """Sentences of the shipped prose in an order of their own, at least `tokens` long; empty without a tokenizer."""
    sentences = [f"{sentence.strip()}." for _, text in prose() for sentence in text.split(".") if sentence.strip()]
    text, ids = "", tuple[int, ...]()
    while len(ids) < tokens:
        text += " ".join(sentences[index] for index in context.rng.permutation(len(sentences))) + "\n\n"
        counted = context.under_test.tokenize(text)
        if not counted:
            return ()
        missing = max(tokens / len(counted) - 1, 0.0)
        ids, text = counted, text + text * int(missing)
    return ids


def _moved(led: Trace, followed: Trace) -> float | None:
    pair = shared_decoding(led, followed)
    return float(np.mean(least_total_variation(pair[0], pair[1]))) if pair else None


def _judged(context: Context, measured: Sequence[tuple[int, float | None]]) -> Finding:
    known = [(place, moved) for place, moved in measured if moved is not None]
    if not known:
        return _skipped("no text could be lined up")
    at, moved = zip(*known, strict=True)
    rows = {place: float(np.mean([m for p, m in known if p == place])) for place in sorted(set(at))}
    context.facts["depth_drift"] = {str(place): round(mean, 5) for place, mean in rows.items()}
    evidence = Evidence(
        EvidenceKind.NOTE,
        "distance from the baseline after so many tokens",
        "\n".join(f"{place:>7} tokens: {mean:.4f}" for place, mean in rows.items()),
    )
    limit = max(LIMIT, context.plan.gates.numerical.logit_drift_tolerance)
    step = find_step(at, moved, limit)
    if step is not None:
        return _stepped(context, step, limit, evidence)
    mean = float(np.mean(moved))
    small = find_step(at, moved, _WORTH_A_WARNING)
    warning = ""
    if mean > limit:
        warning = "that is far, and already so for short texts: gate 2 judges it"
    elif small is not None:
        where = f"beyond {small.last_close} to {small.first_far} tokens"
        warning = f"{where} it lies {small.beyond:.4f} away, {small.before:.4f} before: small, but it begins there"
    return Finding(
        check=CHECK,
        verdict=Verdict.PASS,
        message=f"behind {min(at)} to {max(at)} tokens the release lies {mean:.4f} from the baseline, without a step "
        f"above {limit:g}",
        warning=warning,
        measured=mean,
        threshold=limit,
        unit="mean total variation",
        samples=len(known),
        evidence=(evidence,) if warning else (),
    )


def _stepped(context: Context, step: Step, limit: float, evidence: Evidence) -> Finding:
    return Finding(
        check=CHECK,
        verdict=Verdict.FAIL,
        symptom="step_at_depth",
        message=f"beyond {step.last_close} to {step.first_far} tokens the release leaves the baseline: "
        f"{step.beyond:.3f} on average over {step.texts} texts, {step.before:.4f} before",
        measured=step.beyond,
        threshold=limit,
        unit="mean total variation",
        samples=step.texts,
        evidence=(evidence,),
        location=context.plan.where("gate_config.gate_4_long_context.context_lengths"),
        remedy="Something changes with the position: compare KV-cache dtype and block size, attention backend, "
        "sliding window, rope scaling and chunked prefill with the release before, one at a time.",
    )


def _nan(context: Context, proof: NonFiniteError) -> Finding:
    ours = proof.service == context.under_test.name
    return Finding(
        check=CHECK,
        verdict=Verdict.FAIL if ours else Verdict.ERROR,
        symptom="nan_logits",
        message=f"NaN or infinity behind a long text: {proof}",
        evidence=(answer_evidence("what came back", proof.answer),),
        remedy="The model computes NaN: see gate 2." if ours else "The baseline is broken itself.",
    )


def _skipped(why: str) -> Finding:
    return Finding(check=CHECK, verdict=Verdict.SKIPPED, message=f"logprobs at depth are not compared: {why}")
