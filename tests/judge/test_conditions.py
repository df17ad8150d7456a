"""Where answers are wrong is read from which conditions were always right."""

from __future__ import annotations

from vllm_gate.judge.conditions import REMEDIES, Cell, condition


def test_right_alone_and_wrong_in_a_batch_is_only_under_load() -> None:
    assert condition([Cell(1, False, 2, 2), Cell(1, True, 2, 2), Cell(16, False, 5, 8), Cell(16, True, 8, 8)]) == (
        "only_under_load"
    )


def test_right_when_whole_and_wrong_when_streamed_is_only_streaming() -> None:
    assert condition([Cell(1, False, 2, 2), Cell(1, True, 0, 2), Cell(16, False, 8, 8), Cell(16, True, 1, 8)]) == (
        "only_streaming"
    )
    assert condition([Cell(1, False, 2, 2), Cell(1, True, 0, 2)]) == "only_streaming"


def test_load_that_hit_only_streamed_answers_is_still_load() -> None:
    assert condition([Cell(1, False, 2, 2), Cell(1, True, 2, 2), Cell(16, False, 8, 8), Cell(16, True, 7, 8)]) == (
        "only_under_load"
    )


def test_wrong_everywhere_is_no_condition() -> None:
    assert condition([Cell(1, False, 0, 2), Cell(1, True, 0, 2)]) == ""
    assert condition([Cell(1, False, 1, 2), Cell(1, True, 2, 2), Cell(16, False, 8, 8)]) == ""
    assert condition([Cell(16, False, 0, 8)]) == ""
    assert condition([]) == ""


def test_a_condition_that_was_not_asked_proves_nothing() -> None:
    assert condition([Cell(1, False, 0, 0), Cell(16, False, 1, 2)]) == ""
    assert condition([Cell(1, True, 0, 2)]) == ""


def test_each_condition_has_a_remedy() -> None:
    assert set(REMEDIES) == {"only_under_load", "only_streaming"}
    assert str(Cell(1, False, 0, 2)) == "concurrency   1, not streamed: 0 of 2 right"
    assert str(Cell(16, True, 7, 8)) == "concurrency  16, streamed    : 7 of 8 right"
