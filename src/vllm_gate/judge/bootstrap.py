"""Confidence intervals of a mean over positions whose prompts were drawn, not the positions: a cluster bootstrap.

Positions of one prompt hang together, so resampling single positions would give intervals that are far too narrow.
Source: Cameron, Gelbach & Miller, Bootstrap-based improvements for inference with clustered errors (2008), pairs
cluster bootstrap; the percentile interval of Efron & Tibshirani (1993).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllm_gate.core.finding import Interval
from vllm_gate.judge.positions import Floats

DRAWS = 2000
_AT_ONCE = 2_000_000
"""Clusters drawn in one step, so that memory stays small however many prompts there are."""


@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """A mean over n positions of `clusters` prompts, with its interval."""

    mean: float
    interval: Interval
    n: int
    clusters: int


def clustered_mean(
    values: Floats, cluster: NDArray[np.int64], rng: np.random.Generator, level: float = 0.95
) -> ClusteredMean:
    """Mean of `values` (n,) whose prompts are numbered by `cluster` (n,), with a percentile bootstrap interval.

    Raises ValueError for no values, and for a value that is not finite: leaving it out would change what was measured.
    """
    if values.size == 0:
        raise ValueError("no values to average")
    if not np.isfinite(values).all():
        raise ValueError(f"{int((~np.isfinite(values)).sum())} values are not finite")
    _, numbers = np.unique(cluster, return_inverse=True)
    clusters = int(numbers.max()) + 1
    sums: Floats = np.bincount(numbers, weights=values).astype(np.float64)
    counts: Floats = np.bincount(numbers).astype(np.float64)
    at_once = max(1, _AT_ONCE // clusters)
    means = np.concatenate(
        [_redrawn(sums, counts, min(at_once, DRAWS - done), rng) for done in range(0, DRAWS, at_once)]
    )
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return ClusteredMean(float(values.mean()), Interval(float(low), float(high), level), int(values.size), clusters)


def _redrawn(sums: Floats, counts: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Means over clusters drawn with replacement, shape (draws,)."""
    drawn = rng.integers(0, sums.size, size=(draws, sums.size))
    means: Floats = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return means
