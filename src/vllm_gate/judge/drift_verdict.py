"""Whether a measured drift is within its tolerance. Equal to the reference is not asked for; close enough is.

PASS when the interval's upper end is within the tolerance. FAIL when its lower end is above it, or above half of it
while the drift is at least five times the noise that the reference shows against itself. Otherwise more samples are
needed. A mean can hide a few positions that are badly wrong, so the tail has a rule of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vllm_gate.core.verdict import Verdict
from vllm_gate.judge.bootstrap import ClusteredMean
from vllm_gate.judge.drift import Drift
from vllm_gate.judge.positions import Floats

_CLEAR_OF_NOISE = 5.0
"""Drift over noise floor from which a change is real, whatever its size."""
_CHANGED = 2.0
LEAST_PROMPTS = 20
_TAIL = 0.5
_TAIL_OVER_FLOOR = 4.0
_TAIL_POSITIONS = 3
_CERTAIN_GAP = 1.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and why in one clause."""

    verdict: Verdict
    why: str


def judge_mean(measured: ClusteredMean, tolerance: float, floor: float) -> Judgement:
    """The rule of this module for the mean; `floor` is the reference's drift against itself, in the same unit."""
    low, high = measured.interval.low, measured.interval.high
    if measured.clusters < LEAST_PROMPTS:
        return Judgement(
            Verdict.INCONCLUSIVE, f"{measured.clusters} prompts are too few, at least {LEAST_PROMPTS} needed"
        )
    if high <= tolerance:
        return Judgement(Verdict.PASS, f"at most {high:.4f}, within {tolerance:g}")
    if low > tolerance:
        return Judgement(Verdict.FAIL, f"at least {low:.4f}, above {tolerance:g}")
    if low > tolerance / 2 and measured.mean >= _CLEAR_OF_NOISE * floor:
        return Judgement(Verdict.FAIL, f"{measured.mean:.4f}, {_ratio(measured.mean, floor)} the noise floor")
    return Judgement(Verdict.INCONCLUSIVE, f"between {low:.4f} and {high:.4f}, around {tolerance:g}")


def is_changed(measured: ClusteredMean, floor: ClusteredMean | None) -> bool:
    """Whether a drift, however small, is more than the noise that the reference shows against itself.

    The lower end of the one must lie above twice the upper end of the other: other kernels or another TP may move a
    server by as much as its own noise, rounded weights move it further (docs/numerical-consistency.md has the study).
    """
    return floor is not None and measured.interval.low > _CHANGED * floor.interval.high


def judge_tail(measured: Drift, floor: Floats) -> Judgement:
    """Whether several positions are badly wrong although the mean may be fine.

    `floor` holds the reference's total variation against itself, position by position (empty where unknown). Lone
    spikes are healthy; three are not.
    """
    values = measured.total_variation
    if values.size == 0:
        return Judgement(Verdict.PASS, "nothing measured")
    limit = max(_TAIL, _TAIL_OVER_FLOOR * float(np.quantile(floor, 0.999)) if floor.size else 0.0)
    far = int((values > limit).sum())
    if far >= _TAIL_POSITIONS and float(np.quantile(values, 0.999)) > limit:
        return Judgement(Verdict.FAIL, f"{far} positions moved more than {limit:.2f} of their probability")
    certain = measured.flips(_CERTAIN_GAP)
    if certain >= _TAIL_POSITIONS:
        return Judgement(Verdict.FAIL, f"{certain} best tokens changed that led by more than {_CERTAIN_GAP:g} nat")
    return Judgement(Verdict.PASS, f"{far} positions moved more than {limit:.2f}")


def _ratio(value: float, floor: float) -> str:
    """`12 ×`, or `infinitely many times` over a floor of exactly 0."""
    return f"{value / floor:.0f} ×" if floor > 0 else "infinitely many times"
