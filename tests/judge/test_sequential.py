"""The e-processes against sums and products written out, exact distributions, and the promises they make."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from vllm_gate.judge.sequential import (
    drop_above,
    drop_below,
    drop_interval,
    mcnemar,
    more_for_drop,
    more_for_rate,
    more_often,
    rate_above,
    rate_below,
)


def test_rate_above_is_a_mean_of_likelihood_ratios() -> None:
    limit, events, requests = 0.01, 2, 30
    rates = [min(0.999, limit * m) for m in (2, 3, 5, 10, 30, 100, 300, 700, 1000)]
    ratios = [(q / limit) ** events * ((1 - q) / (1 - limit)) ** (requests - events) for q in rates]
    assert math.exp(rate_above(events, requests, limit)) == pytest.approx(sum(ratios) / 9)


def test_rate_below_is_a_weighted_mean_of_likelihood_ratios() -> None:
    limit, events, requests = 0.001, 1, 4000
    rates = [1e-6, limit / 20, limit / 10, limit / 4, limit / 2]
    ratios = [(q / limit) ** events * ((1 - q) / (1 - limit)) ** (requests - events) for q in rates]
    assert math.exp(rate_below(events, requests, limit)) == pytest.approx(np.dot(ratios, [0.4, 0.2, 0.2, 0.1, 0.1]))


def test_more_often_is_a_weighted_mean_of_likelihood_ratios_against_a_fair_coin() -> None:
    ratios = [(2 * q) ** 5 * (2 - 2 * q) ** 2 for q in (0.6, 0.75, 0.9, 0.99)]
    assert math.exp(more_often(5, 2)) == pytest.approx(np.dot(ratios, [0.1, 0.2, 0.3, 0.4]))
    assert math.exp(more_often(0, 0)) == pytest.approx(1)


def test_a_fair_coin_is_expected_to_give_evidence_of_1() -> None:
    wins = np.arange(31)
    expected = (np.exp(more_often(wins, 30 - wins)) * stats.binom.pmf(wins, 30, 0.5)).sum()
    assert expected == pytest.approx(1)


def test_drops_are_means_of_products_of_bets() -> None:
    limit, outcomes = 0.03, [-1, -1, 0, 0, 0, 1]
    shares = np.geomspace(0.02, 0.95, 12)
    against = np.mean([math.prod(1 - b / (1 + limit) * (d + limit) for d in outcomes) for b in shares])
    favour = np.mean([math.prod(1 + b / (1 - limit) * (d + limit) for d in outcomes) for b in shares])
    assert math.exp(drop_above(2, 3, 1, limit)) == pytest.approx(against)
    assert math.exp(drop_below(2, 3, 1, limit)) == pytest.approx(favour)


def test_nothing_seen_is_no_evidence() -> None:
    for log_e in (rate_above(0, 0, 0.1), rate_below(0, 0, 0.1), drop_above(0, 0, 0, 0.1), drop_below(0, 0, 0, 0.1)):
        assert log_e == pytest.approx(0)
    assert drop_interval(0, 0, 0) == (-1.0, 1.0)
    assert (mcnemar(0, 0), more_for_drop(0, 0, 0, 0.03, 0.05)) == (1.0, None)


@pytest.mark.parametrize("limit", [0.001, 0.05, 0.5])
def test_a_rate_at_its_limit_is_expected_to_give_evidence_of_1(limit: float) -> None:
    """E[E] = 1 at the boundary: summed over the binomial distribution, which is exact."""
    n = np.arange(41)
    for process in (rate_above, rate_below):
        expected = (np.exp(process(n, 40, limit)) * stats.binom.pmf(n, 40, limit)).sum()
        assert expected == pytest.approx(1)


@pytest.mark.parametrize("disagreement", [0.1, 0.5])
def test_a_drop_at_its_limit_is_expected_to_give_evidence_of_1(disagreement: float) -> None:
    limit = 0.03
    p = [(disagreement + limit) / 2, 1 - disagreement, (disagreement - limit) / 2]
    cells = [(w, s, 12 - w - s) for w, s in itertools.product(range(13), range(13)) if w + s <= 12]
    for process in (drop_above, drop_below):
        total = sum(math.exp(process(*cell, limit)) * stats.multinomial.pmf(cell, 12, p) for cell in cells)
        assert total == pytest.approx(1)


def test_a_clean_run_certifies_a_rate_where_the_table_says() -> None:
    """Of 0.1 %, at 5 %: 3,246 clean answers (2,995 with a number fixed beforehand, by Clopper and Pearson)."""
    bar = math.log(20)
    assert rate_below(0, 3_246, 0.001) >= bar > rate_below(0, 3_240, 0.001)
    assert math.ceil(math.log(0.05) / math.log(0.999)) == 2_995


def test_a_candidate_that_always_fails_is_stopped_within_15() -> None:
    assert min(n for n in range(1, 40) if drop_above(n, 0, 0, 0.03) >= math.log(100)) <= 15


def test_evidence_depends_on_counts_alone_and_arrays_give_the_same() -> None:
    worse, same, better = np.array([0, 2, 40]), np.array([0, 3, 900]), np.array([0, 1, 41])
    together = drop_below(worse, same, better, 0.03)
    alone = [float(drop_below(w, s, b, 0.03)) for w, s, b in zip(worse, same, better, strict=True)]
    assert together == pytest.approx(alone)


def test_a_million_pairs_stay_finite() -> None:
    for log_e in (drop_above(10**6, 0, 0, 0.03), drop_below(10**6, 0, 0, 0.03), rate_above(0, 10**6, 0.001)):
        assert np.isfinite(log_e)


@pytest.mark.parametrize("limit", [0, 1, -0.1, math.nan])
def test_a_rate_needs_a_limit_that_can_be_broken(limit: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        rate_above(1, 2, limit)


def test_a_drop_needs_a_limit_that_can_be_broken() -> None:
    with pytest.raises(ValueError, match="between -1 and 1"):
        drop_below(1, 2, 3, 1.0)


@pytest.mark.parametrize(("worse", "better"), [(0, 0), (3, 3), (1, 9), (20, 5), (0, 6)])
def test_mcnemar_is_the_exact_binomial_test(worse: int, better: int) -> None:
    expected = stats.binomtest(worse, worse + better, 0.5).pvalue if worse + better else 1.0
    assert mcnemar(worse, better) == pytest.approx(expected)


def test_the_interval_holds_the_observed_drop_and_shrinks() -> None:
    wide, narrow = drop_interval(10, 80, 10), drop_interval(1_000, 8_000, 1_000)
    assert wide[0] < 0 < wide[1]
    assert narrow[0] < 0 < narrow[1]
    assert narrow[1] - narrow[0] < (wide[1] - wide[0]) / 3


def test_the_interval_holds_the_truth_at_all_times_in_19_runs_of_20() -> None:
    rng = np.random.default_rng(5)
    p, drop = [0.08, 0.87, 0.05], 0.03
    missed = 0
    for _ in range(100):
        counts = np.cumsum(rng.multinomial(1, p, 600), axis=0)
        worse, same, better = counts.T
        either = np.maximum(drop_above(worse, same, better, drop), drop_below(worse, same, better, drop))
        missed += bool((either >= math.log(40)).any())
    assert missed <= stats.binom.ppf(0.999, 100, 0.05)


def test_about_how_many_more_is_about_right() -> None:
    left = more_for_rate(0, 1_000, 0.001, 0.05)
    assert left is not None
    assert 1_000 + left == pytest.approx(3_246, rel=0.15)
    pairs = more_for_drop(5, 90, 5, 0.03, 0.05)
    assert pairs is not None
    truth = min(n for n in range(100, 5_000, 10) if drop_below(n * 0.05, n * 0.9, n * 0.05, 0.03) >= math.log(20))
    assert 100 + pairs == pytest.approx(truth, rel=0.35)


def test_no_number_of_requests_certifies_what_is_broken() -> None:
    assert more_for_rate(50, 100, 0.001, 0.05) is None
    assert more_for_drop(50, 50, 0, 0.03, 0.05) is None


def test_what_is_certified_needs_no_more() -> None:
    assert more_for_rate(0, 5_000, 0.001, 0.05) == 0
    assert more_for_drop(0, 5_000, 0, 0.03, 0.05) == 0
