"""What a report tells of a canary besides its evidence, in constant memory."""

from __future__ import annotations

import math
from collections import Counter

from vllm_gate.gates.canary.outcome import EXCLUDED, WORSE, Outcome, Side
from vllm_gate.judge.task_success import is_degenerate

_BINS = 20
"""Bins of a latency, a factor of e: each is 5 % wide."""
_EXAMPLES_EACH = 2
_EXAMPLES = 8


class Quantiles:
    """Durations, in bins that are 5 % wide."""

    def __init__(self) -> None:
        self._bins: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        """Take in one duration; 0 stands for none."""
        if seconds > 0:
            self._bins[round(math.log(seconds) * _BINS)] += 1

    def at(self, share: float) -> float | None:
        """Seconds that `share` of the durations do not exceed, to 5 %; None without any."""
        left = share * self._bins.total()
        for bin_, count in sorted(self._bins.items()):
            left -= count
            if left <= 0:
                return round(math.exp(bin_ / _BINS), 4)
        return None


class SideTally:
    """One server's part in all pairs."""

    def __init__(self) -> None:
        self.signals: Counter[str] = Counter()
        self.failed = 0
        self.degenerate = 0
        self.tokens = 0
        self.seconds = Quantiles()

    def add(self, side: Side) -> None:
        """Take in one answer."""
        self.signals.update(side.failed)
        self.failed += bool(side.failed)
        self.degenerate += is_degenerate(side.failed)
        self.tokens += side.tokens
        self.seconds.add(side.seconds)


class Tallies:
    """Both sides, and the first examples of each way in which the candidate is worse."""

    def __init__(self) -> None:
        self.candidate = SideTally()
        self.baseline = SideTally()
        self.examples: list[Outcome] = []
        self._shown: Counter[str] = Counter()
        self.excluded: Counter[str] = Counter()

    @property
    def tokens(self) -> int:
        """Of both sides."""
        return self.candidate.tokens + self.baseline.tokens

    def add(self, outcome: Outcome) -> None:
        """Take in one outcome."""
        if outcome.result == EXCLUDED:
            self.excluded.update(outcome.baseline.failed)
            return
        self.candidate.add(outcome.candidate)
        self.baseline.add(outcome.baseline)
        if outcome.result != WORSE:
            return
        first = outcome.candidate.failed[0]
        if self._shown[first] < _EXAMPLES_EACH and len(self.examples) < _EXAMPLES:
            self._shown[first] += 1
            self.examples.append(outcome)
