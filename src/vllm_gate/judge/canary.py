"""What a shadow canary has proven so far, from counts alone: shards add up, and order does not matter. Pure.

A request pairs the baseline's outcome with the candidate's. Three questions, one error budget each side: does task
success drop, does the candidate degenerate where the baseline does not, does it fail to answer where the baseline does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vllm_gate.core.verdict import Verdict
from vllm_gate.judge.sequential import (
    drop_above,
    drop_below,
    more_for_drop,
    more_for_rate,
    more_often,
    rate_above,
    rate_below,
)

ALPHA_FAIL = 0.01
"""Probability of ever blocking a candidate that keeps the limits, for each question."""
ALPHA_PASS = 0.05
"""Probability of ever passing one that breaks a limit, for each question."""
TRANSPORT_LIMIT = 0.05
"""Share of requests that a candidate may leave unanswered where the baseline answers."""
EXCLUDED_LIMIT = 0.05
"""Share of requests that may be excluded, because the baseline had no answer, before nothing can be said."""
SETTLING = 12
"""Pairs still asked after a first question has failed, so that the others may show what they have seen too."""
TASK_SUCCESS, DEGENERATION, TRANSPORT = "task_success", "degeneration", "transport"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Outcomes so far. `worse + same + better` is the number of pairs that were judged."""

    worse: int = 0
    """The baseline did the task and the candidate did not. A candidate without an answer is one of these."""
    same: int = 0
    better: int = 0
    degenerate: int = 0
    """Pairs whose candidate degenerates and whose baseline does not."""
    recovered: int = 0
    """Pairs whose baseline degenerates and whose candidate does not."""
    unanswered: int = 0
    """Pairs whose candidate gave no answer (5xx, time-out)."""
    excluded: int = 0
    """Requests that the baseline did not answer: nothing to compare with."""
    excluded_answered: int = 0
    """Those of the excluded that the candidate did answer."""

    @property
    def pairs(self) -> int:
        """What was judged."""
        return self.worse + self.same + self.better

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            worse=self.worse + other.worse,
            same=self.same + other.same,
            better=self.better + other.better,
            degenerate=self.degenerate + other.degenerate,
            recovered=self.recovered + other.recovered,
            unanswered=self.unanswered + other.unanswered,
            excluded=self.excluded + other.excluded,
            excluded_answered=self.excluded_answered + other.excluded_answered,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`gate_5_shadow_canary`: absolute points of success, and a share of requests."""

    success_drop: float
    degeneration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question's state. Evidence is ln E: `evidence_fail` against keeping the limit, `evidence_pass` for it."""

    question: str
    observed: float
    """NaN before the first pair."""
    limit: float
    evidence_fail: float
    evidence_pass: float

    @property
    def verdict(self) -> Verdict:
        """Fail, pass, or not yet known."""
        if self.evidence_fail >= math.log(1 / ALPHA_FAIL):
            return Verdict.FAIL
        return Verdict.PASS if self.evidence_pass >= math.log(1 / ALPHA_PASS) else Verdict.INCONCLUSIVE


def judge(counts: Counts, limits: Limits) -> tuple[Answer, ...]:
    """Every question's answer.

    A rate fails only when its events also come more often than their mirror image, in which the baseline is the one
    at fault: a model that loops on one prompt in twenty does so on either side, and neither release is to blame.
    """
    pairs = counts.pairs
    drop = (counts.worse, counts.same, counts.better)
    success = Answer(
        question=TASK_SUCCESS,
        observed=(counts.worse - counts.better) / pairs if pairs else math.nan,
        limit=limits.success_drop,
        evidence_fail=float(drop_above(*drop, limits.success_drop)),
        evidence_pass=float(drop_below(*drop, limits.success_drop)),
    )
    return (
        success,
        _rate(DEGENERATION, counts.degenerate, counts.recovered, pairs, limits.degeneration),
        _rate(TRANSPORT, counts.unanswered, counts.excluded_answered, pairs, TRANSPORT_LIMIT),
    )


def more_needed(counts: Counts, answer: Answer) -> int | None:
    """About how many more pairs a question needs to pass, if they keep coming as so far; None where none would do."""
    if answer.question == TASK_SUCCESS:
        return more_for_drop(counts.worse, counts.same, counts.better, answer.limit, ALPHA_PASS)
    events = counts.degenerate if answer.question == DEGENERATION else counts.unanswered
    return more_for_rate(events, counts.pairs, answer.limit, ALPHA_PASS)


def too_many_excluded(counts: Counts) -> bool:
    """Whether the baseline failed so often that the pairs left may not stand for the traffic."""
    asked = counts.pairs + counts.excluded
    return asked > 0 and counts.excluded / asked > EXCLUDED_LIMIT


def overall(counts: Counts, answers: tuple[Answer, ...]) -> Verdict:
    """Fail as soon as one question fails, pass when all pass and few requests were excluded."""
    verdicts = {answer.verdict for answer in answers}
    if Verdict.FAIL in verdicts:
        return Verdict.FAIL
    passed = verdicts == {Verdict.PASS} and not too_many_excluded(counts)
    return Verdict.PASS if passed else Verdict.INCONCLUSIVE


def _rate(question: str, events: int, mirrored: int, pairs: int, limit: float) -> Answer:
    return Answer(
        question=question,
        observed=events / pairs if pairs else math.nan,
        limit=limit,
        evidence_fail=min(float(rate_above(events, pairs, limit)), float(more_often(events, mirrored))),
        evidence_pass=float(rate_below(events, pairs, limit)),
    )
