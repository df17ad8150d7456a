"""What a shadow canary has proven so far, from counts alone: shards add up, and order does not matter. Pure.

A request pairs the baseline's outcome with the candidate's. Three questions, one error budget each side: does task
success drop, does the candidate degenerate where the baseline does not, does it fail to answer where the baseline does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from vllm_gate.core.verdict import Verdict
from vllm_gate.judge.sequential import (
    drop_above,
    drop_below,
    more_for_drop,
    more_for_rate,
    rate_above,
    rate_below,
)

ALPHA_FAIL = 0.01
"""Probability of ever blocking a candidate that keeps the limits, for each question."""
ALPHA_PASS = 0.05
"""Probability of ever passing one that breaks a limit, for each question."""
TRANSPORT_LIMIT = 0.05
"""Share of requests that a candidate may leave unanswered where the baseline answers."""
FEWEST_EVENTS = 3
"""Before a rate fails: a single event can be the detector's own mistake."""
EXCLUDED_LIMIT = 0.05
"""Share of requests that may be excluded, because the baseline had no answer, before nothing can be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Outcomes so far. `worse + same + better` is the number of pairs that were judged."""

    worse: int = 0
    """The baseline did the task and the candidate did not. A candidate without an answer is one of these."""
    same: int = 0
    better: int = 0
    degenerate: int = 0
    """Pairs whose candidate degenerates and whose baseline does not."""
    unanswered: int = 0
    """Pairs whose candidate gave no answer (5xx, time-out, empty)."""
    excluded: int = 0
    """Requests that the baseline did not answer: nothing to compare with."""

    @property
    def pairs(self) -> int:
        """What was judged."""
        return self.worse + self.same + self.better

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`gate_5_shadow_canary`: absolute points of success, and a share of requests."""

    success_drop: float
    degeneration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question's state. Evidence is ln E; `more` is about how many pairs are missing to a pass, None: no number."""

    question: str
    verdict: Verdict
    observed: float
    limit: float
    evidence_fail: float
    evidence_pass: float
    more: int | None


def judge(counts: Counts, limits: Limits) -> tuple[Answer, ...]:
    """Every question's answer: fail, pass, or inconclusive with how much is missing."""
    pairs = counts.pairs
    drop = (counts.worse, counts.same, counts.better)
    return (
        _answer(
            "task_success",
            observed=(counts.worse - counts.better) / pairs if pairs else math.nan,
            limit=limits.success_drop,
            evidence=(float(drop_above(*drop, limits.success_drop)), float(drop_below(*drop, limits.success_drop))),
            enough=True,
            more=lambda: more_for_drop(*drop, limits.success_drop, ALPHA_PASS),
        ),
        _rate("degeneration", counts.degenerate, pairs, limits.degeneration),
        _rate("transport", counts.unanswered, pairs, TRANSPORT_LIMIT),
    )


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


def _rate(question: str, events: int, pairs: int, limit: float) -> Answer:
    return _answer(
        question,
        observed=events / pairs if pairs else math.nan,
        limit=limit,
        evidence=(float(rate_above(events, pairs, limit)), float(rate_below(events, pairs, limit))),
        enough=events >= FEWEST_EVENTS,
        more=lambda: more_for_rate(events, pairs, limit, ALPHA_PASS),
    )


def _answer(
    question: str,
    *,
    observed: float,
    limit: float,
    evidence: tuple[float, float],
    enough: bool,
    more: Callable[[], Any],
) -> Answer:
    against, favour = evidence
    if against >= math.log(1 / ALPHA_FAIL) and enough:
        verdict = Verdict.FAIL
    else:
        verdict = Verdict.PASS if favour >= math.log(1 / ALPHA_PASS) else Verdict.INCONCLUSIVE
    return Answer(
        question=question,
        verdict=verdict,
        observed=observed,
        limit=limit,
        evidence_fail=against,
        evidence_pass=favour,
        more=more() if verdict is Verdict.INCONCLUSIVE else 0,
    )
