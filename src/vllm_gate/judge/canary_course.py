"""A canary from its first pair to its verdict: when it ends, and the way its evidence took. Constant in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vllm_gate.core.verdict import Verdict
from vllm_gate.judge.canary import SETTLING, Answer, Counts, Limits, judge, overall

_CLOSELY = 20
_GROWTH = 1.1


@dataclass(frozen=True, slots=True)
class Point:
    """The state after some pairs, for a curve."""

    counts: Counts
    answers: tuple[Answer, ...]


class Course:
    """Takes outcomes one by one, in the order of the traffic, and knows when enough is known.

    The first failure stands: an e-process that has crossed its bar has done so for good, and later pairs can't take
    that back. So the same outcomes in the same order end at the same place, however they were asked.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._failed: dict[str, Answer] = {}
        self._left = SETTLING
        self._next_point = 1
        self.counts = Counts()
        self.answers = judge(self.counts, limits)
        self.curve: list[Point] = []
        """After each of the first pairs, then at distances that grow with their number."""

    @property
    def verdict(self) -> Verdict:
        """So far."""
        return overall(self.counts, self.answers)

    @property
    def ended(self) -> bool:
        """Whether nothing more needs to be asked."""
        if self._failed:
            return self._left <= 0 or len(self._failed) == len(self.answers) or "task_success" in self._failed
        return self.verdict is Verdict.PASS

    def add(self, outcome: Counts) -> None:
        """Take in one request's outcome."""
        self.counts += outcome
        if self._failed and outcome.pairs:
            self._left -= 1
        self.answers = tuple(self._failed.get(now.question, now) for now in judge(self.counts, self._limits))
        self._failed |= {now.question: now for now in self.answers if now.verdict is Verdict.FAIL}
        if self.counts.pairs >= self._next_point:
            self.mark()

    def mark(self) -> None:
        """Put the present state onto the curve, once."""
        pairs = self.counts.pairs
        if self.curve and self.curve[-1].counts == self.counts:
            return
        self._next_point = pairs + 1 if pairs < _CLOSELY else math.ceil(pairs * _GROWTH)
        self.curve.append(Point(self.counts, self.answers))
