"""A lower bound of the total variation that sees lists without a common token."""

import numpy as np
import pytest

from vllm_gate.judge.drift import drift
from vllm_gate.judge.least_variation import least_total_variation
from vllm_gate.judge.positions import Positions, pack


def listed(probabilities: dict[int, float], k: int = 3) -> Positions:
    return pack([(0, 0.0, [(token, float(np.log(p))) for token, p in probabilities.items()])], k)


def top(distribution: np.ndarray, k: int) -> Positions:
    best = np.argsort(-distribution)[:k]
    return pack([(0, 0.0, [(int(token), float(np.log(distribution[token]))) for token in best])], k)


def test_lists_without_a_common_token_are_far_apart_although_the_buckets_are_alike() -> None:
    """a lists .5 + .3 + .1, and b's least listed token has .02: at least .9 - 3 x .02 left the tokens of a."""
    a, b = listed({1: 0.5, 2: 0.3, 3: 0.1}), listed({4: 0.9, 5: 0.02, 6: 0.02})
    assert drift(a, b).total_variation[0] == pytest.approx(0.0, abs=0.06)
    assert least_total_variation(a, b)[0] == pytest.approx(0.84)


def test_equal_lists_have_none() -> None:
    a = listed({1: 0.5, 2: 0.3, 3: 0.1})
    assert least_total_variation(a, a)[0] == 0.0


def test_it_is_never_above_the_true_one_and_never_below_the_buckets() -> None:
    rng = np.random.default_rng(3)
    for sharpness in (0.5, 2.0, 8.0):
        for _ in range(200):
            logits = rng.normal(size=(2, 40)) * sharpness
            p, q = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            a, b = top(p, 5), top(q, 5)
            least = least_total_variation(a, b)[0]
            assert least <= 0.5 * np.abs(p - q).sum() + 1e-12
            assert least >= drift(a, b).total_variation[0] - 1e-12
