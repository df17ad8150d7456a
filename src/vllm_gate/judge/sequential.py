"""Evidence that may be looked at after every request: betting e-processes, in log domain, on counts alone.

An e-process E starts at 1 and is expected not to grow as long as its null hypothesis holds, so that the probability of
ever seeing E >= 1/alpha is at most alpha (Ville's inequality): look at any time, stop at any time. Each one here is a
mixture over fixed bets, which needs no tuning and depends on the outcomes' counts alone, not on their order. Shards add
up. Sources: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (arXiv 2010.09686);
Howard et al., "Time-uniform Chernoff bounds" (arXiv 1810.08240).

Every function takes integers or integer arrays of one shape, and returns natural logarithms of that shape.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

ABOVE = np.array([2.0, 3, 5, 10, 30, 100, 300, 700, 1000])
"""Alternatives to a rate that is at most the limit, as multiples of it."""
BELOW = np.array([0.0, 1 / 20, 1 / 10, 1 / 4, 1 / 2])
"""Alternatives to a rate that is at least the limit."""
BELOW_WEIGHTS = np.array([0.4, 0.2, 0.2, 0.1, 0.1])
LEAST_RATE = 1e-6
_LARGEST_POWER = 34
ONE_SIDED = np.array([0.6, 0.75, 0.9, 0.99])
"""Alternatives to a fair coin, for events that come on one side more often than on the other."""
ONE_SIDED_WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
BETS = np.geomspace(0.02, 0.95, 12)
"""Shares of the largest bet that can't ruin."""


def rate_above(events: ArrayLike, requests: ArrayLike, limit: float) -> Floats:
    """ln E against "the rate of events is at most `limit`"."""
    rates = np.minimum(0.999, limit * ABOVE)
    return _rate(events, requests, limit, rates[rates > limit], None)


def rate_below(events: ArrayLike, requests: ArrayLike, limit: float) -> Floats:
    """ln E against "the rate of events is at least `limit`"."""
    return _rate(events, requests, limit, np.maximum(min(LEAST_RATE, limit / 2), limit * BELOW), BELOW_WEIGHTS)


def more_often(here: ArrayLike, there: ArrayLike) -> Floats:
    """ln E against "events come `here` at most as often as `there`", given that each one came on one side alone."""
    wins, losses = np.asarray(here, float)[..., None], np.asarray(there, float)[..., None]
    return _mixed(wins * np.log(2 * ONE_SIDED) + losses * np.log(2 * (1 - ONE_SIDED)), ONE_SIDED_WEIGHTS)


def drop_above(worse: ArrayLike, same: ArrayLike, better: ArrayLike, limit: float) -> Floats:
    """ln E against "success drops by at most `limit`".

    Of each pair, the candidate did `worse` than the baseline, the `same`, or `better`; `limit` is in absolute points
    (0.03 is 3 points), above -1 and below 1.
    """
    return _drop(worse, same, better, limit, -BETS / (1 + _possible(limit)))


def drop_below(worse: ArrayLike, same: ArrayLike, better: ArrayLike, limit: float) -> Floats:
    """ln E against "success drops by at least `limit`"."""
    return _drop(worse, same, better, limit, BETS / (1 - _possible(limit)))


def drop_interval(worse: int, same: int, better: int, *, alpha: float = 0.05, steps: int = 400) -> tuple[float, float]:
    """The drops that neither side's evidence has excluded: a confidence sequence, valid at any time.

    Found on a grid of `steps` values of [-1, 1]; the true drop lies outside of it at any time with probability at
    most `alpha`. Without pairs, everything is possible.
    """
    grid = np.linspace(-1, 1, steps + 1)[1:-1]
    bar = math.log(2 / alpha)
    possible = [
        drop
        for drop in grid
        if drop_above(worse, same, better, drop) < bar and drop_below(worse, same, better, drop) < bar
    ]
    width = 2 / steps
    return max(possible[0] - width, -1.0), min(possible[-1] + width, 1.0)


def mcnemar(worse: int, better: int) -> float:
    """Exact two-sided p-value that, where the two differ, each is as likely the better one (binomial, p = 1/2)."""
    n, k = worse + better, min(worse, better)
    tail = sum(math.comb(n, i) for i in range(k + 1))
    return float(min(1, 2 * tail / 2**n)) if n else 1.0


def more_for_rate(events: int, requests: int, limit: float, alpha: float) -> int | None:
    """About how many more requests certify the rate below `limit`, if events keep coming as so far; None: none do."""
    rate = events / requests if requests else 0.0
    return _more(lambda more: rate_below(events + rate * more, requests + more, limit), alpha)


def more_for_drop(worse: int, same: int, better: int, limit: float, alpha: float) -> int | None:
    """About how many more pairs certify the drop below `limit`, if they keep coming as so far; None where none do."""
    pairs = worse + same + better
    if not pairs:
        return None

    def evidence(more: float) -> Floats:
        growth = 1 + more / pairs
        return drop_below(worse * growth, same * growth, better * growth, limit)

    return _more(evidence, alpha)


def _more(evidence: Callable[[float], Floats], alpha: float) -> int | None:
    """The smallest number at which the evidence is enough. It may fall before it rises, but then rises for good."""
    bar = math.log(1 / alpha)
    enough = next((1 << power for power in range(_LARGEST_POWER) if evidence(1 << power) >= bar), None)
    if enough is None:
        return None
    return enough // 2 + bisect_left(range(enough // 2, enough), bar, key=lambda more: float(evidence(more)))


def _rate(events: ArrayLike, requests: ArrayLike, limit: float, rates: Floats, weights: Floats | None) -> Floats:
    if not 0 < limit < 1:
        raise ValueError(f"a limit of a rate lies between 0 and 1, not {limit}")
    k, n = np.asarray(events, float)[..., None], np.asarray(requests, float)[..., None]
    wealth = k * np.log(rates / limit) + (n - k) * (np.log1p(-rates) - math.log1p(-limit))
    return _mixed(wealth, np.full(len(rates), 1 / len(rates)) if weights is None else weights)


def _possible(limit: float) -> float:
    if not -1 < limit < 1:
        raise ValueError(f"a limit of a drop lies between -1 and 1, not {limit}")
    return limit


def _drop(worse: ArrayLike, same: ArrayLike, better: ArrayLike, limit: float, bets: Floats) -> Floats:
    counts = (np.asarray(count, float)[..., None] for count in (worse, same, better))
    wealth = sum(count * np.log1p(bets * (outcome + limit)) for count, outcome in zip(counts, (-1, 0, 1), strict=True))
    return _mixed(np.asarray(wealth), np.full(len(bets), 1 / len(bets)))


def _mixed(wealth: Floats, weights: Floats) -> Floats:
    """ln of the weighted mean over the last axis."""
    top = wealth.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log((np.exp(wealth - top) * weights).sum(axis=-1)))
