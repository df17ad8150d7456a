"""One comparison: ask both sides, line up what they said, and measure until the tolerance is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from vllm_gate.config.plan import NumericalSettings
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.consistency.sides import Side
from vllm_gate.gates.consistency.tracing import prompts
from vllm_gate.gates.interface import Context
from vllm_gate.judge.bootstrap import ClusteredMean, clustered_mean
from vllm_gate.judge.drift import Drift, drift
from vllm_gate.judge.drift_verdict import Judgement, judge_mean, judge_tail
from vllm_gate.judge.nonfinite import Corruption, corruption, one_token_everywhere
from vllm_gate.judge.positions import Positions, join
from vllm_gate.judge.trace import Trace, shared_decoding

Clusters = NDArray[np.int64]


NOT_COMPARED = Judgement(Verdict.INCONCLUSIVE, "nothing could be compared")


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Drift over some positions: the values, which prompt each belongs to, and the gated mean with its interval."""

    drift: Drift
    clusters: Clusters
    mean: ClusteredMean


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """Everything that one comparison found. Parts are None where a side could not say enough."""

    reference: str
    candidate: str
    metric: str
    prefill: Measured | None = None
    decode: Measured | None = None
    floor: Measured | None = None
    judgement: Judgement = NOT_COMPARED
    perplexity: ClusteredMean | None = None
    corrupt: tuple[str, Corruption] | None = None
    """Whose numbers are broken, and how."""
    same_texts: int = 0
    texts: int = 0
    certain_splits: int = 0
    """Texts that part where the reference led by a telling gap."""
    limits: tuple[str, ...] = ()

    @property
    def comparable(self) -> bool:
        """Whether anything could be lined up."""
        return self.prefill is not None or self.decode is not None

    @property
    def main(self) -> Measured:
        """What the tolerance is held against: prefill where both sides score given tokens, else decoding."""
        measured = self.prefill or self.decode
        assert measured is not None, "ask `comparable` first"
        return measured

    def facts(self) -> dict[str, object]:
        """The figures for the report, JSON-serialisable."""
        parts = {"prefill": self.prefill, "decode": self.decode, "noise_floor": self.floor}
        facts: dict[str, object] = {"reference": self.reference, "candidate": self.candidate}
        facts |= {name: _figures(part.drift) for name, part in parts.items() if part is not None}
        facts |= {"texts": self.texts, "same_texts": self.same_texts, "certain_splits": self.certain_splits}
        if self.perplexity:
            facts["perplexity_ln_ratio"] = round(self.perplexity.mean, 6)
        return facts | ({"limits": list(self.limits)} if self.limits else {})


@dataclass(slots=True)
class _Sample:
    """What has been asked so far."""

    led: list[Trace] = field(default_factory=list)
    followed: list[Trace] = field(default_factory=list)


def compare(context: Context, reference: Side, candidate: Side) -> Comparison:
    """Ask both sides about more and more prompts until the drift is decided; raises as `Tracer` does."""
    settings = context.plan.gates.numerical
    available = prompts()
    cap = min(settings.max_prompts, len(available))
    count, sample = min(settings.prompts, cap), _Sample()
    while True:
        batch = available[len(sample.led) : count]
        led = reference.lead(batch)
        sample.led += led
        sample.followed += candidate.follow(led)
        comparison = _measure(context, settings, reference, candidate, sample)
        decided = comparison.judgement.verdict is not Verdict.INCONCLUSIVE or not comparison.comparable
        if comparison.corrupt or decided or count >= cap or not led:
            return _with_perplexity(context, reference, candidate, comparison)
        count = min(2 * count, cap)


def _measure(
    context: Context, settings: NumericalSettings, reference: Side, candidate: Side, sample: _Sample
) -> Comparison:
    metric = settings.logit_drift_metric
    comparison = Comparison(
        reference=reference.label,
        candidate=candidate.label,
        metric=metric,
        limits=tuple(dict.fromkeys((*reference.limits, *candidate.limits))),
    )
    broken = _corrupt(reference.label, sample.led) or _corrupt(candidate.label, sample.followed)
    if broken:
        return replace(comparison, corrupt=broken)
    pairs = _pairs(sample.led, sample.followed)
    prefill = _measured([_forced(*pair) for pair in pairs], metric, context.rng)
    decode = _measured([_decoded(*pair) for pair in pairs], metric, context.rng)
    main = prefill or decode
    if main is None:
        return comparison
    floor = _floor(reference, sample, metric, context.rng)
    texts, same, sure = _texts(pairs)
    return replace(
        comparison,
        prefill=prefill,
        decode=decode,
        floor=floor,
        judgement=_judged(main, floor, settings.logit_drift_tolerance),
        texts=texts,
        same_texts=same,
        certain_splits=sure,
    )


def _judged(main: Measured, floor: Measured | None, tolerance: float) -> Judgement:
    tail = judge_tail(main.drift, floor.drift.total_variation if floor else np.empty(0))
    if tail.verdict is Verdict.FAIL:
        return tail
    return judge_mean(main.mean, tolerance, floor.mean.mean if floor else 0.0)


def _pairs(led: Sequence[Trace], followed: Sequence[Trace]) -> list[tuple[Trace, Trace]]:
    by_id = {trace.prompt_id: trace for trace in followed}
    return [(trace, by_id[trace.prompt_id]) for trace in led if trace.prompt_id in by_id and trace.continuation]


def _forced(led: Trace, followed: Trace) -> tuple[Positions, Positions] | None:
    """Both sides' scores of the same tokens: all of them, or as far as two captures say the same."""
    if led.token_ids[: led.start] != followed.token_ids[: followed.start]:
        return None
    pair = shared_decoding(_as_decoded(led), _as_decoded(followed))
    return pair[:2] if pair else None


def _as_decoded(trace: Trace) -> Trace:
    return Trace(prompt_id=trace.prompt_id, token_ids=trace.token_ids, start=trace.start, decoded=trace.forced)


def _decoded(led: Trace, followed: Trace) -> tuple[Positions, Positions] | None:
    if led.token_ids[: led.start] != followed.token_ids[: followed.start]:
        return None
    pair = shared_decoding(led, followed)
    return pair[:2] if pair else None


def _measured(
    pairs: Sequence[tuple[Positions, Positions] | None], metric: str, rng: np.random.Generator
) -> Measured | None:
    known = [(number, pair) for number, pair in enumerate(pairs) if pair is not None]
    if not known:
        return None
    found = drift(join([pair[0] for _, pair in known]), join([pair[1] for _, pair in known]))
    clusters = np.repeat([number for number, _ in known], [len(pair[0]) for _, pair in known])
    return Measured(found, clusters, clustered_mean(found.metric(metric), clusters, rng))


def _floor(reference: Side, sample: _Sample, metric: str, rng: np.random.Generator) -> Measured | None:
    """The reference against itself, over the prompts asked first."""
    asked = [(trace.prompt_id, "") for trace in sample.led]
    again = reference.again(asked)
    return _measured([_forced(*pair) for pair in _pairs(sample.led, again)], metric, rng)


def _corrupt(label: str, traces: Sequence[Trace]) -> tuple[str, Corruption] | None:
    for trace in traces:
        for positions in (trace.forced, trace.decoded):
            if positions is not None and len(positions) and (found := corruption(positions)):
                return label, Corruption(found.kind, f"{found.sentence} of {trace.prompt_id!r}")
    everywhere = one_token_everywhere([trace.decoded for trace in traces if trace.decoded is not None])
    return (label, everywhere) if everywhere else None


def _texts(pairs: Sequence[tuple[Trace, Trace]]) -> tuple[int, int, int]:
    """Free-running texts: how many, how many the same, how many part where the reference was sure."""
    shared = [pair for pair in (shared_decoding(*both) for both in pairs) if pair]
    apart = [(positions, at) for positions, _, at in shared if at is not None]
    sure = sum(float(positions.logprobs[at, 0] - positions.logprobs[at, 1]) > 0.25 for positions, at in apart)
    return len(shared), len(shared) - len(apart), sure


def _with_perplexity(context: Context, reference: Side, candidate: Side, comparison: Comparison) -> Comparison:
    if comparison.corrupt or comparison.prefill is None:
        return comparison
    read = [trace for trace in reference.read(None) if trace.forced is not None]
    reread = {trace.prompt_id: trace for trace in candidate.read(read)}
    changes, clusters = [], []
    for number, trace in enumerate(read):
        other = reread.get(trace.prompt_id)
        if trace.forced is None or other is None or other.forced is None or len(other.forced) != len(trace.forced):
            continue
        changes.append(trace.forced.target_logprob - other.forced.target_logprob)
        clusters.append(np.full(len(trace.forced), number))
    if not changes:
        return comparison
    mean = clustered_mean(np.concatenate(changes), np.concatenate(clusters), context.rng)
    return replace(comparison, perplexity=mean)


def _figures(found: Drift) -> dict[str, object]:
    figures: dict[str, object] = {"positions": len(found), "top_1_agreement": round(found.agreement(), 5)}
    figures["top_k_overlap"] = round(float(found.overlap.mean()), 5)
    for name in ("total_variation", "kl", "weighted_logprob"):
        values = found.metric(name)
        quantiles = np.quantile(values, [0.5, 0.99, 0.999]) if values.size else np.zeros(3)
        figures[name] = {
            "mean": round(float(values.mean()), 6),
            **{key: round(float(q), 6) for key, q in zip(("p50", "p99", "p99.9"), quantiles, strict=True)},
            "max": round(float(values.max(initial=0.0)), 6),
        }
    return figures
