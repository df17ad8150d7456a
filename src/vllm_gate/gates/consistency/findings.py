"""A comparison's figures as findings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.asking import answer_evidence
from vllm_gate.gates.consistency.comparing import Comparison, Measured
from vllm_gate.gates.consistency.probing import NAN_REMEDY
from vllm_gate.gates.consistency.tracing import NonFiniteError
from vllm_gate.judge.drift_verdict import is_changed, judge_mean, judge_tail
from vllm_gate.judge.positions import Floats

_UNITS = {"total_variation": "mean total variation", "weighted_logprob": "nats (weighted)", "kl": "nats (KL)"}
_WORTH_A_WARNING = 0.002
"""Total variation below which even a clear change is of no interest to anyone."""
_REMEDY = (
    "Find what changed between the two: version, quantisation, KV-cache dtype, attention backend, fusions (the "
    "execution path lists them). If the change is wanted, approve it by taking the new release as the baseline."
)


def drift_finding(plan: Plan, comparison: Comparison, *, check: str, against: str, size: int | None = None) -> Finding:
    """Mean drift against its tolerance, and the tail."""
    settings = plan.gates.numerical
    main, judgement = comparison.main, comparison.judgement
    who = f"TP={size}" if size else "the release"
    finding = partial(
        Finding,
        check=check,
        measured=main.mean.mean,
        threshold=settings.logit_drift_tolerance,
        unit=_UNITS[comparison.metric],
        samples=main.mean.n,
        interval=main.mean.interval,
        evidence=(_figures(comparison),),
        location=plan.where(f"gate_config.gate_2_numerical.{_KEYS.get(check, 'logit_drift_tolerance')}"),
    )
    where = f"{who} and {against}, over {main.mean.n} positions of {main.mean.clusters} prompts"
    if judgement.verdict is Verdict.PASS:
        return finding(
            verdict=Verdict.PASS,
            message=f"drift between {where}: {main.mean.mean:.4f}, {judgement.why}",
            warning=_warning(comparison, expected=size is not None),
        )
    if judgement.verdict is Verdict.FAIL:
        tail = judge_tail(main.drift, _floor_values(comparison)).verdict is Verdict.FAIL
        return finding(
            verdict=Verdict.FAIL,
            symptom="drift_tail" if tail else "drift",
            message=f"{who} drifts from {against}: {judgement.why} ({main.mean.mean:.4f} on average)",
            remedy=_REMEDY,
        )
    return finding(
        verdict=Verdict.INCONCLUSIVE,
        message=f"the drift of {where} is not decided: {judgement.why}",
        remedy="Raise gate_2_numerical.max_prompts or positions, or set the tolerance clear of the measured drift.",
    )


def decode_finding(plan: Plan, comparison: Comparison) -> Iterator[Finding]:
    """Decoding runs other kernels than prefill; judged where prefill was the main measure."""
    if comparison.prefill is None or comparison.decode is None:
        return
    measured, floor = comparison.decode, comparison.floor
    tolerance = plan.gates.numerical.logit_drift_tolerance
    judgement = judge_tail(measured.drift, _floor_values(comparison))
    if judgement.verdict is not Verdict.FAIL:
        judgement = judge_mean(measured.mean, tolerance, floor.mean.mean if floor else 0.0)
    texts = f"{comparison.same_texts} of {comparison.texts} texts are the same"
    # Texts part early by chance, so few positions may be left: an undecided interval is then no finding of its own.
    failed = judgement.verdict is Verdict.FAIL
    yield Finding(
        check="decode_drift",
        verdict=Verdict.FAIL if failed else Verdict.PASS,
        symptom="drift" if failed else "",
        message=(
            f"the release drifts while it generates, token by token: {judgement.why}"
            if failed
            else f"decoding drifts by {measured.mean.mean:.4f} over {measured.mean.n} positions; {texts}"
        ),
        measured=measured.mean.mean,
        threshold=tolerance,
        unit=_UNITS[comparison.metric],
        samples=measured.mean.n,
        interval=measured.mean.interval,
        location=plan.where("gate_config.gate_2_numerical.logit_drift_tolerance"),
        remedy=_REMEDY if failed else "",
    )


def perplexity_finding(plan: Plan, comparison: Comparison) -> Iterator[Finding]:
    """|ln of the perplexity ratio| on human text."""
    tolerance = plan.gates.numerical.perplexity_drift_tolerance
    measured = comparison.perplexity
    if measured is None:
        return
    interval = measured.interval
    finding = partial(
        Finding,
        check="perplexity_drift",
        measured=measured.mean,
        threshold=tolerance,
        unit="ln(PPL ratio)",
        samples=measured.n,
        interval=interval,
        location=plan.where("gate_config.gate_2_numerical.perplexity_drift_tolerance"),
    )
    if max(abs(interval.low), abs(interval.high)) <= tolerance:
        yield finding(
            verdict=Verdict.PASS, message=f"perplexity of human text changes by {measured.mean:+.4f} (log ratio)"
        )
    elif interval.low > tolerance or interval.high < -tolerance:
        yield finding(
            verdict=Verdict.FAIL,
            symptom="perplexity",
            message=f"perplexity of human text changes by {measured.mean:+.4f} (log ratio), more than {tolerance:g}",
            remedy=_REMEDY,
        )
    else:
        yield finding(
            verdict=Verdict.INCONCLUSIVE,
            message=f"the change of perplexity lies between {interval.low:+.4f} and {interval.high:+.4f}, around "
            f"±{tolerance:g}: the shipped text is too short to tell",
        )


def corrupt_finding(comparison: Comparison, release: str) -> Finding:
    """Broken numbers found while comparing: the release's are a failure, the reference's an error."""
    assert comparison.corrupt is not None
    whose, found = comparison.corrupt
    ours = whose == release
    return Finding(
        check="nan_inf",
        verdict=Verdict.FAIL if ours else Verdict.ERROR,
        symptom="nan_logits",
        message=f"{whose}: {found.sentence}",
        remedy=NAN_REMEDY if ours else f"{whose} is broken itself, so nothing can be compared with it.",
    )


def nan_finding(proof: NonFiniteError) -> Finding:
    """A request that a server could not answer for NaN: a failure of the release and its variants, else an error."""
    reference = proof.service == "baseline"
    return Finding(
        check="nan_inf",
        verdict=Verdict.ERROR if reference else Verdict.FAIL,
        symptom="nan_logits",
        message=f"NaN or infinity: {proof}",
        evidence=(answer_evidence("what came back", proof.answer),),
        remedy="The baseline is broken itself, so nothing can be compared with it." if reference else NAN_REMEDY,
    )


def nothing_to_line_up(plan: Plan, comparison: Comparison, check: str = "logit_drift") -> Finding:
    """A side said too little: what was missing, and what would do."""
    return Finding(
        check=check,
        verdict=Verdict.INCONCLUSIVE,
        message=f"{comparison.reference} and {comparison.candidate} can't be compared: "
        + ("; ".join(comparison.limits) or "they share no prompts"),
        location=plan.where(f"service.{comparison.reference}"),
        remedy=(
            "Compare with a vLLM that gives logprobs and token ids: a live one, or a capture of the release before "
            f'(`vllm-gate capture --service {comparison.reference} --out FILE`, then snapshot = "FILE").'
        ),
    )


def missing_reference(plan: Plan) -> Finding:
    """Nothing is configured to compare with."""
    return Finding(
        check="logit_drift",
        verdict=Verdict.INCONCLUSIVE,
        message="there is nothing to compare the release with",
        location=plan.where("gate_config.gate_2_numerical"),
        remedy=(
            "Add to config.toml the release before, live or captured:\n[service.baseline]\n"
            'base_url = "http://HOST:PORT/v1"\nmodel = "NAME"\nor\n[service.baseline]\nsnapshot = "baseline.capture"'
        ),
    )


def missing_variant(plan: Plan, size: int) -> Finding:
    """A listed tensor-parallel size has no service."""
    model = plan.services["under_test"].model
    return Finding(
        check="tp_variants",
        verdict=Verdict.INCONCLUSIVE,
        message=f"TP={size} is listed in compare_tp_variants, but no service has it",
        location=plan.where("gate_config.gate_2_numerical.compare_tp_variants"),
        remedy=(
            f'Add to config.toml:\n[service.tp.{size}]\nbase_url = "http://HOST:PORT/v1"\nmodel = "{model}"\n'
            f"or, captured while it was up (`vllm-gate capture --service tp.{size} --out tp{size}.capture`):\n"
            f'[service.tp.{size}]\nsnapshot = "tp{size}.capture"'
        ),
    )


_KEYS = {"tp_variants": "compare_tp_variants"}


def _floor_values(comparison: Comparison) -> Floats:
    return comparison.floor.drift.total_variation if comparison.floor else np.empty(0)


def _warning(comparison: Comparison, *, expected: bool) -> str:
    """What a pass should not hide: a clear change within the tolerance, and what could not be said.

    Between tensor-parallel sizes a clear change is `expected`: sums are added up in another order.
    """
    parts = list(comparison.limits)
    floor = comparison.floor.mean if comparison.floor else None
    variation = float(comparison.main.drift.total_variation.mean())
    if not expected and floor is not None and is_changed(comparison.main.mean, floor) and variation > _WORTH_A_WARNING:
        parts.insert(
            0,
            f"clear of the reference's own noise ({floor.mean:.4f}): the two do not compute the same numbers, as after "
            "a change of version, kernels or TP; a change of weights as small as int8 rounding looks like this as well",
        )
    return "; ".join(parts)


def _figures(comparison: Comparison) -> Evidence:
    rows = [("prefill", comparison.prefill), ("decode", comparison.decode), ("noise floor", comparison.floor)]
    lines = [_line(name, measured) for name, measured in rows if measured is not None]
    texts = f"free-running texts: {comparison.same_texts} of {comparison.texts} the same"
    return Evidence(EvidenceKind.NOTE, "drift", "\n".join([*lines, texts]))


def _line(name: str, measured: Measured) -> str:
    found = measured.drift
    return (
        f"{name:11} TV {found.total_variation.mean():.4f} (max {found.total_variation.max():.3f}), "
        f"KL {found.kl.mean():.5f}, weighted {found.weighted_logprob.mean():.4f}, "
        f"top-1 {found.agreement():.4f}, overlap {found.overlap.mean():.3f}"
    )
