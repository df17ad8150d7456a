"""Two sides asked the same questions: whether one loses more of them than chance explains.

Only questions that exactly one side gets right say anything: were the sides equal, each of those would fall to either
like a coin (the sign test, which is McNemar's exact test).
"""

from __future__ import annotations

from math import comb

ALPHA = 0.01
"""Chance of blaming a release that is as good as its baseline."""


def sign_test(worse: int, better: int) -> float:
    """One-sided p: at least `worse` of `worse + better` tosses of a fair coin. 1 without any toss."""
    n = worse + better
    return sum(comb(n, k) for k in range(worse, n + 1)) / float(2**n)


def can_still_tell(worse: int, better: int, left: int) -> bool:
    """Whether `left` further questions, all lost, would be enough for `ALPHA`."""
    return sign_test(worse + left, better) <= ALPHA
