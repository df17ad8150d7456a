"""Gate 2: the release computes the probabilities that its reference computes.

The reference is the baseline (live, or a capture), and for tensor-parallel variants the one with TP=1. It continues
the shipped prompts greedily; both sides then score the same token ids. NaN and infinity are looked for in everything
that comes back, before any comparison. Samples grow until the tolerance is decided or the prompts are used up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.consistency.comparing import Comparison, compare
from vllm_gate.gates.consistency.findings import (
    corrupt_finding,
    decode_finding,
    drift_finding,
    missing_reference,
    missing_variant,
    nan_finding,
    nothing_to_line_up,
    perplexity_finding,
)
from vllm_gate.gates.consistency.probing import AlignmentProbe, NanProbe
from vllm_gate.gates.consistency.sides import LiveSide, Side, SnapshotSide
from vllm_gate.gates.consistency.tracing import NonFiniteError
from vllm_gate.gates.interface import Check, Context
from vllm_gate.judge.snapshot import from_bytes

CHECK_NAMES = ("nan_inf", "alignment", "logit_drift", "decode_drift", "perplexity_drift", "tp_variants")


class Numerical:
    """See the module."""

    key = "gate_2_numerical"
    number = 2
    title = "numerical consistency"

    def checks(self, plan: Plan) -> Sequence[Check]:
        """NaN first: nothing else means anything where there is one."""
        run = _Run()
        settings = plan.gates.numerical
        checks = [Check("nan_inf", run.nan_inf)] if settings.check_nan_inf else []
        checks += [Check("alignment", run.alignment), Check("logit_drift", run.drift)]
        if settings.compare_tp_variants:
            checks.append(Check("tp_variants", run.tp_variants))
        return checks

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        """None."""
        return ()


class _Run:
    """What the checks of one run share: the sides, and whether NaN was found."""

    def __init__(self) -> None:
        self._sides: dict[str, Side] = {}
        self._comparisons: dict[tuple[str, str], Comparison] = {}
        self._broken = ""

    def nan_inf(self, context: Context) -> Iterator[Finding]:
        """Every form of NaN, on the release itself; the other checks are not asked after a failure."""
        finding = NanProbe(context).finding()
        if finding.verdict is Verdict.FAIL:
            self._broken = finding.message
        yield finding

    def alignment(self, context: Context) -> Iterator[Finding]:
        """The same text has the same token ids on both sides."""
        reference = self._reference(context)
        if not self._broken and isinstance(reference, LiveSide):
            yield AlignmentProbe(context, reference.service).finding()

    def drift(self, context: Context) -> Iterator[Finding]:
        """Drift from the reference: prefill, decode, perplexity."""
        if self._broken:
            yield _not_asked("logit_drift", self._broken)
            return
        reference = self._reference(context)
        if reference is None:
            yield missing_reference(context.plan)
            return
        try:
            comparison = self._compare(context, reference, self._release(context))
        except NonFiniteError as proof:
            yield self._proven(proof)
            return
        context.facts["drift"] = comparison.facts()
        if comparison.corrupt:
            self._broken = comparison.corrupt[1].sentence
            yield corrupt_finding(comparison, "under_test")
            return
        if not comparison.comparable:
            yield nothing_to_line_up(context.plan, comparison)
            return
        yield drift_finding(context.plan, comparison, check="logit_drift", against=reference.label)
        yield from decode_finding(context.plan, comparison)
        yield from perplexity_finding(context.plan, comparison)

    def tp_variants(self, context: Context) -> Iterator[Finding]:
        """Each listed tensor-parallel size against TP=1."""
        if self._broken:
            yield _not_asked("tp_variants", self._broken)
            return
        plan = context.plan
        sizes = sorted(plan.gates.numerical.compare_tp_variants)
        sides = {size: self._variant(context, size) for size in sizes}
        reference = sides.get(1) or self._variant(context, 1)
        if reference is None:
            yield missing_variant(plan, 1)
            return
        facts: dict[str, object] = {}
        for size in sizes:
            side = sides[size]
            if size == 1 or side is reference:
                continue
            if side is None:
                yield missing_variant(plan, size)
                continue
            try:
                comparison = self._compare(context, reference, side)
            except NonFiniteError as proof:
                yield self._proven(proof)
                continue
            facts[f"tp.{size}"] = comparison.facts()
            if comparison.corrupt:
                yield corrupt_finding(comparison, side.label)
                continue
            if not comparison.comparable:
                yield nothing_to_line_up(plan, comparison, check="tp_variants")
                continue
            yield drift_finding(plan, comparison, check="tp_variants", against="TP=1", size=size)
        context.facts["tp_variants"] = facts

    def _proven(self, proof: NonFiniteError) -> Finding:
        """NaN that showed only while comparing: one request in many, or a variant other than the release."""
        self._broken = self._broken or str(proof)
        return nan_finding(proof)

    def _compare(self, context: Context, reference: Side, candidate: Side) -> Comparison:
        """Each pair is asked once, also where the release is the TP variant and TP=1 the baseline."""
        pair = (reference.label, candidate.label)
        if pair not in self._comparisons:
            self._comparisons[pair] = compare(context, reference, candidate)
        return self._comparisons[pair]

    def _reference(self, context: Context) -> Side | None:
        return self._side(context, "baseline") or self._side(context, "tp.1")

    def _release(self, context: Context) -> Side:
        side = self._side(context, "under_test")
        assert side is not None, "the configuration refuses a plan without a live release"
        return side

    def _variant(self, context: Context, size: int) -> Side | None:
        """The side with TP=`size`: the release itself where `[matrix]` says so."""
        if context.plan.matrix.get("parallelism_tp") == size and f"tp.{size}" not in context.plan.services:
            return self._release(context)
        return self._side(context, f"tp.{size}")

    def _side(self, context: Context, name: str) -> Side | None:
        if name not in self._sides:
            if name in context.snapshots:
                path = context.plan.services[name].snapshot
                self._sides[name] = SnapshotSide(name, from_bytes(context.snapshots[name], path))
            elif name in context.services:
                self._sides[name] = LiveSide(name, context.services[name], context)
        return self._sides.get(name)


def _not_asked(check: str, why: str) -> Finding:
    return Finding(check=check, verdict=Verdict.SKIPPED, message=f"not asked: {why}")
