"""The cluster bootstrap: intervals by an independent route, and the same whatever is drawn at once."""

import numpy as np
import pytest
from scipy import stats

from vllm_gate.judge import bootstrap
from vllm_gate.judge.bootstrap import clustered_mean


def test_the_interval_of_many_equal_clusters_is_that_of_the_normal_distribution() -> None:
    rng = np.random.default_rng(1)
    prompts = rng.normal(1.0, 0.5, 400)
    values, clusters = np.repeat(prompts, 16), np.repeat(np.arange(400), 16)
    found = clustered_mean(values, clusters, np.random.default_rng(2))
    low, high = stats.norm.interval(0.95, loc=prompts.mean(), scale=prompts.std(ddof=1) / np.sqrt(400))
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=0.005)
    assert (found.n, found.clusters) == (6400, 400)


def test_positions_of_one_prompt_are_not_taken_for_independent_ones() -> None:
    rng = np.random.default_rng(3)
    values = np.repeat(rng.normal(0, 1, 40), 64)
    together = clustered_mean(values, np.repeat(np.arange(40), 64), rng).interval
    apart = clustered_mean(values, np.arange(values.size), rng).interval
    # 64 equal values a cluster: the clustered interval is 8 times as wide.
    assert (together.high - together.low) / (apart.high - apart.low) == pytest.approx(8, rel=0.15)


def test_clusters_of_different_sizes_weigh_by_their_positions() -> None:
    values = np.array([0.0] * 90 + [1.0] * 10)
    clusters = np.array([0] * 90 + [1] * 10)
    found = clustered_mean(values, clusters, np.random.default_rng(4))
    assert found.mean == pytest.approx(0.1)
    # Two clusters drawn twice: both the first (mean 0), both the second (mean 1), or one of each (0.1).
    assert (found.interval.low, found.interval.high) == (0.0, 1.0)


def test_how_many_draws_are_made_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values, clusters = np.random.default_rng(5).random(300), np.repeat(np.arange(30), 10)
    whole = clustered_mean(values, clusters, np.random.default_rng(6))
    monkeypatch.setattr(bootstrap, "_AT_ONCE", 70)
    assert clustered_mean(values, clusters, np.random.default_rng(6)) == whole


def test_no_values_and_values_that_are_not_finite_are_refused() -> None:
    rng = np.random.default_rng(7)
    with pytest.raises(ValueError, match="no values"):
        clustered_mean(np.empty(0), np.empty(0, dtype=np.int64), rng)
    with pytest.raises(ValueError, match="1 values are not finite"):
        clustered_mean(np.array([0.0, np.nan]), np.array([0, 1]), rng)
