"""The sign test, against probabilities counted by hand."""

from itertools import product

import pytest

from vllm_gate.judge.signs import ALPHA, can_still_tell, sign_test


@pytest.mark.parametrize(
    ("worse", "better", "p"),
    [
        (0, 0, 1.0),
        (0, 3, 1.0),
        (1, 0, 1 / 2),
        (1, 1, 3 / 4),
        (5, 0, 1 / 32),
        (6, 0, 1 / 64),
        (7, 0, 1 / 128),
        (2, 1, 4 / 8),
        (9, 1, 11 / 1024),
        (10, 1, 12 / 2048),
    ],
)
def test_the_chance_of_as_many_heads_or_more(worse: int, better: int, p: float) -> None:
    assert sign_test(worse, better) == pytest.approx(p, rel=1e-12)


def test_seven_losses_in_a_row_are_the_fewest_that_tell() -> None:
    assert [sign_test(losses, 0) <= ALPHA for losses in (6, 7)] == [False, True]
    assert can_still_tell(0, 0, 7)
    assert not can_still_tell(0, 0, 6)
    assert not can_still_tell(3, 2, 7)  # 10 of 12: 79 / 4096


def test_stopping_early_blames_an_equal_release_in_about_one_run_of_a_hundred() -> None:
    """Every order in which twelve differing answers can fall, looked at after each: 7 straight, or 10 of 11."""

    def blamed(falls: tuple[int, ...]) -> bool:
        return any(sign_test(sum(falls[:n]), n - sum(falls[:n])) <= ALPHA for n in range(1, len(falls) + 1))

    every = list(product((0, 1), repeat=12))
    share = sum(map(blamed, every)) / len(every)
    assert share == pytest.approx(1 / 128 + 7 / 2048)
