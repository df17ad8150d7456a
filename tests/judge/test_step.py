"""A step over positions, and what is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from vllm_gate.judge.step import find_step

PLACES = [128, 128, 1024, 1024, 4096, 4096, 8192, 8192, 16_384, 16_384]


def test_a_step_is_found_where_it_is() -> None:
    step = find_step(PLACES, [0.01, 0.003, 0.004, 0.005, 0.006, 0.002, 0.9, 1.0, 0.8, 0.7])
    assert step is not None
    assert (step.last_close, step.first_far, step.texts) == (4096, 8192, 4)
    assert step.before == pytest.approx(0.005)
    assert step.beyond == pytest.approx(0.85)


@pytest.mark.parametrize(
    "moved",
    [
        [0.01] * 10,
        [0.5] * 10,  # everywhere: gate 2's question
        [0.001] * 5 + [0.02] * 5,  # clear, and too small to matter
        [0.001] * 9 + [0.9],  # one odd text
        [0.001] * 8 + [0.9, 0.9],  # two texts at the longest place alone
        [0.02] * 5 + [0.06] * 5,  # no more than three times what lies before
    ],
)
def test_what_is_no_step(moved: Sequence[float]) -> None:
    assert find_step(PLACES, moved) is None


def test_noise_that_grows_with_the_length_is_no_step() -> None:
    rng = np.random.default_rng(1)
    growing = np.geomspace(0.002, 0.02, len(PLACES))
    assert not any(find_step(PLACES, (growing * rng.exponential(size=len(PLACES))).tolist()) for _ in range(1000))
