"""Broken numbers in every form they take; healthy ones that look odd."""

import math

import pytest

from vllm_gate.judge.nonfinite import corruption, one_token_everywhere
from vllm_gate.judge.positions import Positions, pack

HEALTHY = (1, -0.1, [(1, -0.1), (2, -3.0), (3, -4.0), (4, -5.0), (5, -6.0)])


def rows(*special: tuple[int, float, list[tuple[int, float]]]) -> Positions:
    return pack([HEALTHY, *special, HEALTHY], 5)


@pytest.mark.parametrize(
    ("row", "kind", "place"),
    [
        ((1, math.nan, [(1, -0.1)]), "nan", "position 1"),
        ((1, -0.1, [(1, -0.1), (2, math.nan)]), "nan", "position 1"),
        ((7, -9999.0, [(1, -0.1), (2, -3.0)]), "sentinel", "position 1"),
        ((1, -0.1, [(1, -9999.0)]), "sentinel", "position 1"),
        ((1, -0.01, [(1, -0.01), (2, -3.0)]), "broken_softmax", "position 1"),
        ((1, -8.0, [(t, -8.0) for t in range(5)]), "dead_logits", "position 1"),
    ],
)
def test_each_form_is_named_with_its_place(
    row: tuple[int, float, list[tuple[int, float]]], kind: str, place: str
) -> None:
    found = corruption(rows(row))
    assert found is not None
    assert found.kind == kind
    assert place in found.sentence


@pytest.mark.parametrize(
    "row",
    [
        HEALTHY,
        (7, -30.0, [(1, -0.001), (2, -9.0)]),  # an unlikely token of the prompt
        (1, -0.1, [(1, -0.1), (2, -9999.0)]),  # an impossible token far down the list (a mask)
        (1, -0.7, [(1, -0.7), (2, -0.7)]),  # a true tie of two
        (1, 0.0, [(1, 0.0)]),  # certainty
        (1, -1.0, []),  # nothing listed
    ],
)
def test_healthy_positions_are_left_alone(row: tuple[int, float, list[tuple[int, float]]]) -> None:
    assert corruption(rows(row)) is None


def test_one_token_best_everywhere_in_different_texts_is_argmax_of_nan() -> None:
    dead = pack([(0, -0.5, [(0, -0.5), (1, -2.0)])] * 20, 2)
    found = one_token_everywhere([dead, dead])
    assert found is not None
    assert "token 0 is the best one at all 40 positions" in found.sentence


def test_one_text_or_few_positions_prove_nothing() -> None:
    dead = pack([(0, -0.5, [(0, -0.5)])] * 40, 1)
    assert one_token_everywhere([dead]) is None
    assert one_token_everywhere([dead.head(8), dead.head(8)]) is None
    assert one_token_everywhere([dead, pack([(3, -0.5, [(3, -0.5)])] * 40, 1)]) is None
