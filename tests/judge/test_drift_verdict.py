"""Intervals by prompt, and what follows from them."""

import numpy as np
import pytest
from scipy import stats

from vllm_gate.core.finding import Interval
from vllm_gate.core.verdict import Verdict
from vllm_gate.judge.bootstrap import ClusteredMean, clustered_mean
from vllm_gate.judge.drift import Drift
from vllm_gate.judge.drift_verdict import is_changed, judge_mean, judge_tail

RNG = np.random.default_rng(7)


def measured(mean: float, low: float, high: float, clusters: int = 32) -> ClusteredMean:
    return ClusteredMean(mean, Interval(low, high), n=2048, clusters=clusters)


@pytest.mark.parametrize(
    ("mean", "low", "high", "floor", "expected"),
    [
        (0.010, 0.008, 0.012, 0.0, Verdict.PASS),
        (0.019, 0.018, 0.020, 0.0, Verdict.PASS),  # the upper end is the tolerance itself
        (0.030, 0.021, 0.040, 0.030, Verdict.FAIL),  # above the tolerance, whatever the noise
        (0.018, 0.011, 0.025, 0.003, Verdict.FAIL),  # 6 × the noise, and above half the tolerance
        (0.018, 0.011, 0.025, 0.004, Verdict.INCONCLUSIVE),  # 4.5 × the noise
        (0.018, 0.009, 0.025, 0.001, Verdict.INCONCLUSIVE),  # clear of the noise, but maybe below half
        (0.020, 0.015, 0.025, 0.020, Verdict.INCONCLUSIVE),
    ],
)
def test_the_rule_for_the_mean(mean: float, low: float, high: float, floor: float, expected: Verdict) -> None:
    assert judge_mean(measured(mean, low, high), 0.02, floor).verdict is expected


@pytest.mark.parametrize(
    ("low", "floor_high", "changed"),
    [(0.013, 0.006, True), (0.012, 0.006, False), (0.001, 0.0, True), (0.0, 0.0, False)],
)
def test_a_change_is_clear_of_twice_the_noise(low: float, floor_high: float, changed: bool) -> None:
    assert is_changed(measured(0.02, low, 0.03), measured(0.0, 0.0, floor_high)) is changed
    assert not is_changed(measured(0.02, low, 0.03), None)


def test_too_few_prompts_never_pass() -> None:
    assert judge_mean(measured(0.0, 0.0, 0.0, clusters=19), 0.02, 0.0).verdict is Verdict.INCONCLUSIVE
    assert judge_mean(measured(0.0, 0.0, 0.0, clusters=20), 0.02, 0.0).verdict is Verdict.PASS


def test_the_interval_of_equal_clusters_is_that_of_their_means() -> None:
    """40 prompts of 25 positions, one value each: the interval is that of 40 independent values (normal theory)."""
    by_prompt = RNG.normal(1.0, 0.2, size=40)
    values, prompts = np.repeat(by_prompt, 25), np.repeat(np.arange(40), 25)
    found = clustered_mean(values, prompts, np.random.default_rng(1))
    low, high = stats.norm.interval(0.95, by_prompt.mean(), stats.sem(by_prompt))
    assert found.interval.low == pytest.approx(low, abs=0.012)
    assert found.interval.high == pytest.approx(high, abs=0.012)
    assert (found.n, found.clusters) == (1000, 40)


def test_positions_of_one_prompt_do_not_count_as_independent() -> None:
    values = np.repeat(RNG.normal(size=30), 100)
    by_prompt = clustered_mean(values, np.repeat(np.arange(30), 100), np.random.default_rng(1)).interval
    as_if_free = clustered_mean(values, np.arange(3000), np.random.default_rng(1)).interval
    assert by_prompt.high - by_prompt.low > 5 * (as_if_free.high - as_if_free.low)


def test_prompts_of_unequal_length_do_not_make_a_constant_vary() -> None:
    found = clustered_mean(np.ones(111), np.repeat([0, 1, 2], [1, 10, 100]), np.random.default_rng(1))
    assert (found.interval.low, found.interval.high) == (1.0, 1.0)


def test_the_interval_leaves_as_much_outside_as_its_level_says() -> None:
    """Two prompts at 0 and 1, drawn twice with replacement: the mean is 0, .5, 1 with 1/4, 1/2, 1/4; only an interval
    that leaves out 2.5 % on each side reaches both ends, and one that leaves out 30 % reaches neither.
    """
    values, prompts = np.array([0.0, 1.0]), np.array([0, 1])
    wide = clustered_mean(values, prompts, np.random.default_rng(1)).interval
    narrow = clustered_mean(values, prompts, np.random.default_rng(1), level=0.4).interval
    assert (wide.low, wide.high) == (0.0, 1.0)
    assert (narrow.low, narrow.high) == (0.5, 0.5)
    many = np.random.default_rng(3).normal(size=4000)
    ninety = clustered_mean(many, np.arange(4000), np.random.default_rng(1)).interval
    assert ninety.high - ninety.low == pytest.approx(2 * 1.96 / np.sqrt(4000), rel=0.06)


def test_a_single_prompt_has_an_interval_of_no_width() -> None:
    found = clustered_mean(np.array([0.1, 0.3]), np.array([4, 4]), np.random.default_rng(1))
    assert (found.mean, found.interval.low, found.interval.high) == pytest.approx((0.2, 0.2, 0.2))


@pytest.mark.parametrize("wrong", [np.array([]), np.array([1.0, np.nan]), np.array([1.0, np.inf])])
def test_nothing_and_not_a_number_are_refused(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="values"):
        clustered_mean(wrong, np.zeros(wrong.size, dtype=np.int64), np.random.default_rng(1))


def tail(total_variation: list[float], flipped_gap: list[float] | None = None) -> Drift:
    values = np.array(total_variation)
    gaps = np.array(flipped_gap or [0.0] * len(values))
    zeros = np.zeros_like(values)
    return Drift(values, zeros, zeros, np.ones_like(values), gaps, gaps > 0, zeros)


def test_two_wild_positions_are_healthy_and_three_are_not() -> None:
    calm = [0.01] * 500
    assert judge_tail(tail([*calm, 0.9, 0.9]), np.empty(0)).verdict is Verdict.PASS
    assert judge_tail(tail([*calm, 0.9, 0.9, 0.9]), np.empty(0)).verdict is Verdict.FAIL


def test_a_reference_that_is_wild_itself_raises_the_limit() -> None:
    wild = tail([*[0.01] * 500, 0.9, 0.9, 0.9])
    assert judge_tail(wild, np.full(1000, 0.3)).verdict is Verdict.PASS


def test_three_flips_of_certain_tokens_fail_although_nothing_moved_far() -> None:
    assert judge_tail(tail([0.1] * 100, [1.2] * 3 + [0.0] * 97), np.empty(0)).verdict is Verdict.FAIL
    assert judge_tail(tail([0.1] * 100, [1.2] * 2 + [0.9] * 98), np.empty(0)).verdict is Verdict.PASS


def test_nothing_measured_has_no_tail() -> None:
    assert judge_tail(tail([]), np.empty(0)).verdict is Verdict.PASS
