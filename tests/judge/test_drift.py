"""Drift measures against values worked out by hand and by scipy, and the cases that trip such code."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from vllm_gate.judge.drift import drift
from vllm_gate.judge.positions import Positions, join, pack

Listed = dict[int, float]
LN = math.log


def positions(*rows: Listed, target: int = 1, k: int = 3) -> Positions:
    """Rows of token → probability, as a server lists them."""
    return pack(
        [(target, LN(row[target]) if target in row else -20.0, [(t, LN(p)) for t, p in row.items()]) for row in rows], k
    )


def test_identical_distributions_drift_by_exactly_nothing() -> None:
    a = positions({1: 0.5, 2: 0.3, 3: 0.1}, {4: 0.9, 1: 0.05, 2: 0.01})
    found = drift(a, a)
    for values in (found.total_variation, found.kl, found.weighted_logprob, found.nll_change):
        assert values.tolist() == [0.0, 0.0]
    assert found.overlap.tolist() == [1.0, 1.0]
    assert found.flips() == 0
    assert found.agreement() == 1.0


def test_the_three_measures_by_hand() -> None:
    """a = .5 .3 .1 rest .1; b = .4 .4 .1 rest .1 over the same three tokens.

    TV = ½ (.1 + .1 + 0 + 0) = .1; KL = .5 ln(.5/.4) + .3 ln(.3/.4); weighted = (.45 ln 1.25 + .35 ln(4/3)) / .9.
    """
    found = drift(positions({1: 0.5, 2: 0.3, 3: 0.1}), positions({1: 0.4, 2: 0.4, 3: 0.1}))
    assert found.total_variation[0] == pytest.approx(0.1)
    assert found.kl[0] == pytest.approx(0.5 * LN(1.25) + 0.3 * LN(0.75))
    assert found.weighted_logprob[0] == pytest.approx((0.45 * LN(1.25) + 0.35 * LN(4 / 3)) / 0.9)
    assert found.nll_change[0] == pytest.approx(LN(0.5) - LN(0.4))


def test_a_token_that_one_side_does_not_list_is_part_of_the_rest() -> None:
    """a lists 1 .6, 2 .3 (rest .1); b lists 1 .6, 3 .2 (rest .2): common 1; the rests are .4 and .4, so TV is 0.

    The weighted measure takes token 2 at b's floor .2 and token 3 at a's floor, but no higher than b's own .2.
    """
    found = drift(positions({1: 0.6, 2: 0.3}, k=2), positions({1: 0.6, 3: 0.2}, k=2))
    assert found.total_variation[0] == pytest.approx(0.0)
    assert found.overlap[0] == pytest.approx(0.5)
    expected = (0.25 * LN(0.3 / 0.2) + 0.2 * 0.0) / (0.6 + 0.25 + 0.2)
    assert found.weighted_logprob[0] == pytest.approx(expected)


def test_disjoint_lists_say_nothing_about_each_other_but_their_overlap() -> None:
    found = drift(positions({1: 0.9}, k=1, target=1), positions({2: 0.9}, k=1, target=1))
    assert found.overlap[0] == 0.0
    assert found.flipped.tolist() == [True]
    assert found.flips() == 1, "with one listed token the lead over the second is unknown and counts as telling"


def test_the_rest_moves_too() -> None:
    """One listed token, .9 against .5: ½ (.4 + |.1 - .5|) = .4."""
    found = drift(positions({1: 0.9}, k=1), positions({1: 0.5}, k=1))
    assert found.total_variation[0] == pytest.approx(0.4)
    assert found.kl[0] == pytest.approx(0.9 * LN(0.9 / 0.5) + 0.1 * LN(0.1 / 0.5))


def test_a_swap_of_near_ties_is_no_telling_flip_and_one_of_a_clear_lead_is() -> None:
    near = drift(positions({1: 0.40, 2: 0.39}, k=2), positions({2: 0.40, 1: 0.39}, k=2))
    assert (near.flipped[0], near.flips(), near.agreement()) == (True, 0, 1.0)
    clear = drift(positions({1: 0.6, 2: 0.3}, k=2), positions({2: 0.6, 1: 0.3}, k=2))
    assert (clear.flips(), clear.agreement()) == (1, 0.0)


def test_minus_infinity_weighs_nothing_and_breaks_nothing() -> None:
    a = pack([(1, 0.0, [(1, 0.0), (2, -math.inf)])], 2)
    found = drift(a, a)
    assert found.total_variation[0] == 0.0
    assert found.weighted_logprob[0] == 0.0
    assert found.kl[0] == 0.0
    ruled_out = drift(pack([(1, -0.1, [(1, -0.1), (2, -2.4)])], 2), a)
    assert np.isfinite(ruled_out.kl[0])
    assert ruled_out.kl[0] > math.exp(-2.4) * 90


def test_different_texts_are_refused_and_not_measured() -> None:
    with pytest.raises(ValueError, match="different tokens"):
        drift(positions({1: 0.5}, target=1), positions({1: 0.5}, target=2))
    with pytest.raises(ValueError, match="can't be compared"):
        drift(positions({1: 0.5}), positions({1: 0.5}, {1: 0.5}))


def test_no_positions_give_no_values() -> None:
    empty = positions({1: 0.5}).head(0)
    assert len(drift(empty, empty)) == 0


def test_chunks_do_not_change_a_value() -> None:
    rng = np.random.default_rng(3)
    rows = [dict(zip(range(1, 6), rng.dirichlet(np.ones(6))[:5], strict=True)) for _ in range(50)]
    others = [dict(zip(range(1, 6), rng.dirichlet(np.ones(6))[:5], strict=True)) for _ in range(50)]
    a, b = positions(*rows, k=5), positions(*others, k=5)
    many = drift(join([a] * 500), join([b] * 500))
    assert np.array_equal(many.total_variation, np.tile(drift(a, b).total_variation, 500))


distributions = st.lists(st.floats(1e-3, 1.0), min_size=4, max_size=4).map(lambda w: [x / (sum(w) + 0.1) for x in w])


@settings(max_examples=200, deadline=None)
@given(distributions, distributions)
def test_over_the_same_tokens_the_measures_are_those_of_scipy(p: list[float], q: list[float]) -> None:
    a, b = positions(dict(enumerate(p, 1)), k=4), positions(dict(enumerate(q, 1)), k=4)
    found = drift(a, b)
    full_p, full_q = np.array([*p, 1 - sum(p)]), np.array([*q, 1 - sum(q)])
    assert found.total_variation[0] == pytest.approx(0.5 * np.abs(full_p - full_q).sum(), abs=1e-9)
    assert found.kl[0] == pytest.approx(rel_entr(full_p, full_q).sum(), abs=1e-9)
    assert 0 <= found.total_variation[0] <= 1


def test_packing_keeps_the_best_and_leaves_out_the_chosen_one_beyond_them() -> None:
    packed = pack([(9, -7.0, [(1, -1.0), (2, -2.0), (9, -7.0)])], 2)
    assert packed.ids.tolist() == [[1, 2]]
    assert packed.target_logprob.tolist() == [-7.0]


def test_ties_are_packed_in_the_same_order_on_both_sides() -> None:
    one = pack([(1, -1.0, [(5, -1.0), (3, -1.0), (4, -1.0)])], 2)
    other = pack([(1, -1.0, [(4, -1.0), (5, -1.0), (3, -1.0)])], 2)
    assert one.ids.tolist() == other.ids.tolist() == [[3, 4]]


def test_nan_is_least_likely_and_kept_for_the_judge_of_nan() -> None:
    packed = pack([(1, math.nan, [(1, math.nan), (2, -1.0)])], 2)
    assert packed.ids.tolist() == [[2, 1]]
    assert math.isnan(packed.logprobs[0, 1])
