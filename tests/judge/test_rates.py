"""Exact binomial intervals, against scipy and against closed forms."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from vllm_gate.judge.rates import lower_bound, rate, trials_to_certify


@pytest.mark.parametrize(
    ("successes", "trials"), [(0, 1), (1, 1), (0, 20), (20, 20), (19, 20), (7, 16), (99, 100), (3, 4000), (2500, 5000)]
)
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_interval_is_the_one_scipy_calls_exact(successes: int, trials: int, level: float) -> None:
    expected = binomtest(successes, trials).proportion_ci(level, method="exact")
    measured = rate(successes, trials, level).interval
    assert measured.low == pytest.approx(expected.low, abs=1e-9)
    assert measured.high == pytest.approx(expected.high, abs=1e-9)
    assert measured.level == level


def test_twenty_of_twenty_still_allows_a_sixth_to_fail() -> None:
    """Closed form for no failure: low = (alpha / 2) ** (1 / n) = 0.025 ** (1 / 20)."""
    all_right = rate(20, 20)
    assert all_right.value == 1.0
    assert all_right.interval.low == pytest.approx(0.025 ** (1 / 20))
    assert all_right.interval.high == 1.0


def test_a_certificate_for_99_percent_takes_299_clean_trials_or_473_with_one_failure() -> None:
    assert trials_to_certify(0.99) == 299
    assert trials_to_certify(0.99, failures=1) == 473
    assert lower_bound(299, 299) >= 0.99 > lower_bound(298, 298)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (1, 0), (-1, 5), (6, 5)])
def test_an_impossible_count_is_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match=r"no rate|not a count"):
        rate(successes, trials)
    with pytest.raises(ValueError, match=r"no rate|not a count"):
        lower_bound(successes, trials)


def test_no_number_of_trials_certifies_a_rate_of_one() -> None:
    with pytest.raises(ValueError, match="can't be certified"):
        trials_to_certify(1.0)
