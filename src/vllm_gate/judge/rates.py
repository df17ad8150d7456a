"""Rates with exact binomial intervals. Zero trials is never a rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllm_gate.core.finding import Interval

_HALVINGS = 60  # a bisection of [0, 1] has then reached the spacing of doubles


@dataclass(frozen=True, slots=True)
class Rate:
    """`successes` out of `trials`, with the exact interval of the rate behind them."""

    successes: int
    trials: int
    interval: Interval

    @property
    def value(self) -> float:
        """The observed rate, 0 to 1."""
        return self.successes / self.trials


def rate(successes: int, trials: int, level: float = 0.95) -> Rate:
    """The observed rate with its two-sided Clopper-Pearson interval.

    The interval holds every p for which neither P(X >= successes) nor P(X <= successes) under Binomial(trials, p)
    is below (1 - level) / 2. Raises ValueError when there were no trials.
    """
    _refuse_impossible(successes, trials)
    tail = (1 - level) / 2
    low, high = _lower(successes, trials, tail), 1 - _lower(trials - successes, trials, tail)
    return Rate(successes, trials, Interval(low, high, level))


def lower_bound(successes: int, trials: int, level: float = 0.95) -> float:
    """The one-sided exact lower bound: the rate is at least this, at confidence `level`."""
    _refuse_impossible(successes, trials)
    return _lower(successes, trials, 1 - level)


def trials_to_certify(wanted: float, failures: int = 0, level: float = 0.95) -> int:
    """The fewest trials whose one-sided lower bound reaches `wanted` when `failures` of them failed.

    Raises ValueError for a wanted rate of 1 or more, which no number of trials certifies.
    """
    if not 0 < wanted < 1:
        raise ValueError(f"a rate of {wanted} can't be certified by counting")
    low, high = failures, failures + 1
    while lower_bound(high - failures, high, level) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if lower_bound(middle - failures, middle, level) < wanted:
            low = middle
        else:
            high = middle
    return high


def _refuse_impossible(successes: int, trials: int) -> None:
    if trials < 1:
        raise ValueError("nothing was counted, so there is no rate")
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials} is not a count")


def _lower(successes: int, trials: int, tail: float) -> float:
    """The p at which P(X >= successes) = tail; 0 when nothing succeeded."""
    if successes == 0:
        return 0.0
    exceeds = _upper_tail(successes, trials)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(middle) < tail else (low, middle)
    return low


def _upper_tail(successes: int, trials: int) -> Callable[[float], float]:
    """p -> P(X >= successes), as a plain sum of probabilities; each is formed in logarithms to stay in range."""
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    k: NDArray[np.int64] = np.arange(successes, trials + 1)
    log_ways = log_factorial[trials] - log_factorial[k] - log_factorial[trials - k]

    def probability(p: float) -> float:
        return float(np.exp(log_ways + k * np.log(p) + (trials - k) * np.log1p(-p)).sum())

    return probability
