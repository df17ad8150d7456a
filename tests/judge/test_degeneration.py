"""Loops and other degenerate texts are found; healthy repetition is left alone."""

from __future__ import annotations

import json

import pytest

from vllm_gate.judge.degeneration import (
    PeriodicRun,
    degenerations,
    foreign_script,
    periodic_runs,
    scripts,
    undecodable_share,
)

PROSE = (
    "The gate asks the server for a word and compares it with what was agreed. When the two differ, it looks at the "
    "token ids, because a text can hide what happened. A release that fails is kept away from users until somebody "
    "has understood why, and the evidence is kept with it.\n"
)


def kinds(text: str, finish_reason: str = "stop", stop_reason: str = "") -> list[str]:
    return [found.kind for found in degenerations(text, finish_reason=finish_reason, stop_reason=stop_reason)]


def test_a_run_is_described_by_period_start_and_cover() -> None:
    #            0  1  2  3  4  5  6  7
    assert periodic_runs([9, 1, 2, 1, 2, 1, 2, 7], 2, 4) == (PeriodicRun(period=2, start=1, covered=6),)
    assert periodic_runs([9, 1, 2, 1, 2, 1, 2, 7], 2, 7) == ()
    assert periodic_runs([5, 5, 5, 8, 6, 6], 1, 2) == (PeriodicRun(1, 0, 3), PeriodicRun(1, 4, 2))
    assert periodic_runs([], 1, 1) == periodic_runs([3], 1, 1) == ()


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("the " * 24, id="one word"),
        pytest.param("yes, " * 24, id="word and comma"),
        pytest.param("I will check the answer once more before I reply. " * 6, id="sentence"),
        pytest.param("我会再检查一遍。" * 8, id="Chinese"),
        pytest.param("ตกลง" * 24, id="Thai"),
        pytest.param("ha" * 60, id="letters without a space"),
    ],
)
def test_a_loop_is_found_at_the_end_and_a_longer_one_wherever_it_stands(loop: str) -> None:
    assert kinds(PROSE + loop) == ["loop"]
    assert kinds(loop * 3 + "\n" + PROSE) == ["loop"]


@pytest.mark.parametrize(
    ("unit", "times", "looped"),
    [
        pytest.param("a b c d e f g h i j ", 10, True, id="a hundred words"),
        pytest.param("a b c d e f g h i j ", 9, False, id="ninety words"),
        pytest.param("a b c d e f g h i j k l m n o p ", 8, True, id="eight times"),
        pytest.param("a b c d e f g h i j k l m n o p ", 7, False, id="seven times"),
    ],
)
def test_a_few_lines_of_one_kind_inside_a_text_are_no_loop(unit: str, times: int, looped: bool) -> None:
    assert (kinds(unit * times + PROSE) == ["loop"]) is looped
    assert kinds(PROSE + unit * times) == ["loop"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PROSE, id="prose"),
        pytest.param("the " * 23, id="one word less than a loop"),
        pytest.param(json.dumps([{"id": n, "name": f"user{n}", "ok": True} for n in range(60)]), id="JSON rows"),
        pytest.param("| a | b |\n|" + "---|" * 20 + "\n| 1 | 2 |\n", id="table"),
        pytest.param("[" + "0.0, " * 300 + "0.0]", id="zero vector that ends"),
        pytest.param("Title\n" + "=" * 80 + "\n" + PROSE, id="ruler"),
    ],
)
def test_healthy_repetition_is_no_loop(text: str) -> None:
    assert kinds(text) == []


def test_a_ruler_that_never_ends_is_a_loop() -> None:
    assert "loop" in kinds(PROSE + "- " * 100)
    assert "loop" not in kinds(PROSE + "- " * 99)


def names(count: int) -> str:
    """That many different words."""
    return "".join(f"w{number}x " for number in range(count))


@pytest.mark.parametrize(
    ("text", "looped"),
    [
        pytest.param("yes, " * 23 + "yes", False, id="two tokens, 47 covered"),
        pytest.param(names(12) * 4, False, id="four repeats, 48 covered"),
        pytest.param(names(12) * 4 + "w0x", True, id="four repeats, 49 covered"),
        pytest.param(names(13) * 3 + names(12), False, id="51 covered, not quite four repeats"),
        pytest.param(names(13) * 4, True, id="52 covered, four repeats"),
        pytest.param(names(256) * 4, True, id="longest period"),
        pytest.param(names(257) * 4, False, id="longer than the longest period"),
        pytest.param("ha" * 32, False, id="64 letters are a word"),
        pytest.param("ha" * 33, True, id="66 letters are read one by one"),
    ],
)
def test_a_loop_needs_its_repeats_and_its_length(text: str, looped: bool) -> None:
    assert (kinds(PROSE + text) == ["loop"]) is looped


@pytest.mark.parametrize(
    ("count", "times", "looped"), [(30, 4, True), (30, 3, False), (40, 3, False), (25, 4, True), (24, 4, False)]
)
def test_numbers_loop_when_they_fill_the_end_with_four_repeats_and_a_hundred_tokens(
    count: int, times: int, looped: bool
) -> None:
    numbers = "".join(f"{number} " for number in range(count)) * times
    assert (kinds(PROSE + numbers) == ["loop"]) is looped
    assert kinds(numbers + PROSE) == []


@pytest.mark.parametrize(
    ("unit", "times", "found"),
    [
        pytest.param("step {} is a b c d e f\n", 8, True, id="eight words, eight times"),
        pytest.param("step {} is a b c d e f\n", 7, False, id="seven times"),
        pytest.param("step {} is a b c d e\n", 8, False, id="seven words"),
        pytest.param("step {} a b c d e f g . . . . .\n", 8, False, id="fewer than six words in ten tokens"),
    ],
)
def test_a_counter_loop_needs_eight_words_eight_times(unit: str, times: int, found: bool) -> None:
    counting = "".join(unit.format(number) for number in range(times))
    assert (kinds(PROSE + counting) == ["counter_loop"]) is found


def test_a_counter_loop_is_a_hint_until_the_answer_was_cut_by_its_length() -> None:
    counting = "".join(f"Step {n}: look at the next item of the list again.\n" for n in range(20))
    (hint,) = degenerations(PROSE + counting, finish_reason="stop")
    (proof,) = degenerations(PROSE + counting, finish_reason="length")
    assert (hint.kind, hint.certain) == ("counter_loop", False)
    assert (proof.kind, proof.certain) == ("counter_loop", True)
    assert degenerations(counting + PROSE, finish_reason="length") == ()


def test_the_sentence_shows_the_unit_and_its_count() -> None:
    (found,) = degenerations("no way " * 24)
    assert found.sentence == "'no way' stands 24 times in a row"
    (twelve,) = degenerations(names(12) * 5)
    (thirteen,) = degenerations(names(13) * 4)
    assert twelve.sentence.endswith("w11x' stands 5 times in a row")
    assert thirteen.sentence.endswith("w11x' … stands 4 times in a row")


def test_an_empty_text_is_degenerate_only_where_a_text_was_due() -> None:
    assert kinds(" \n") == ["empty_text"]
    assert degenerations("", text_expected=False) == ()


def test_the_servers_own_repetition_stop_is_believed() -> None:
    assert kinds(PROSE, stop_reason="repetition_detected") == ["stopped_repetition"]


def test_more_than_one_character_in_a_hundred_that_is_none() -> None:
    hundred = PROSE[:100]
    assert kinds(hundred[:99] + "\ufffd") == []
    assert kinds(hundred[:98] + "\ufffd\x00") == ["undecodable"]
    assert undecodable_share("a\x00\t\n") == 0.25
    assert undecodable_share("") == 0.0


def test_one_endless_character() -> None:
    filler = (PROSE * 2)[:80]
    assert "x" not in filler
    assert "one_character" in kinds(filler[:79] + "x" * 121)
    assert "one_character" not in kinds(filler[:80] + "x" * 120)
    assert "one_character" not in kinds(filler[:78] + "x" * 121)
    assert kinds(" " * 500 + "fine") == []


def test_a_foreign_script_is_one_that_no_reference_uses() -> None:
    assert scripts("Aé 1") == {"LATIN": 2}
    assert scripts("日本語のテスト")["CJK"] == 7
    assert foreign_script("OK ไทย", "Reply with OK") == ("THAI", 3 / 5)
    assert foreign_script("OK ไทย", "Say ไทย") is None
    assert foreign_script("123", "abc") is None
