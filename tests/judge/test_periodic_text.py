"""The quick look misses nothing: on whatever text it says "no", the closer look finds no loop either."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vllm_gate.judge import degeneration
from vllm_gate.judge.periodic_text import may_count, may_loop, without_blanks

LETTERS = st.sampled_from(list("ab1-. \n,x_你ก\u00a0\t²"))
UNITS = st.text(LETTERS, min_size=1, max_size=14) | st.text("ab 9", min_size=1, max_size=3)


@st.composite
def repeated(draw: st.DrawFn) -> str:
    """A unit some times over, between other texts; its numbers may differ."""
    unit, times = draw(UNITS), draw(st.integers(1, 40))
    before, after = draw(st.text(LETTERS, max_size=40)), draw(st.text(LETTERS, max_size=12) | st.just(""))
    counted = draw(st.booleans())
    body = "".join(f"{unit}{number * 7}" if counted else unit for number in range(times))
    return before + body + after


def loops(text: str) -> bool:
    return degeneration._loop(degeneration._words(text)) is not None


def counts(text: str) -> bool:
    return degeneration._counter_loop(degeneration._words(text)) is not None


@settings(max_examples=400, deadline=None)
@given(repeated())
@example("a " * 24)
@example("ab " * 24)
@example("a b " * 24)
@example("x" * 24 + " y")
@example(" ".join("a" for _ in range(24)))
@example("- " * 120)
@example("\n" * 120)
@example("a\n\n\n\n\n\n\n\n\n\n\n" * 5)
@example("你" * 24)
def test_a_text_that_loops_is_looked_at(text: str) -> None:
    dense = without_blanks(text)
    assert may_loop(dense) or not loops(text)
    assert may_count(dense) or loops(text) or not counts(text)


@pytest.mark.parametrize("seed", range(40))
def test_loops_of_every_length_at_every_place_are_looked_at(seed: int) -> None:
    rng = random.Random(seed)
    words = ["alpha", "b", "gamma9", "delta-", "e,", "你好", "zeta\n"]
    for _ in range(25):
        unit = [rng.choice(words) for _ in range(rng.randint(1, 60))]
        length = rng.randint(max(24, 2 * len(unit)), 5 * len(unit) + 60)
        start = [str(rng.random()) for _ in range(rng.randint(0, 60))]
        end = [str(rng.random()) for _ in range(rng.choice((0, 0, 30)))]
        text = " ".join([*start, *(unit * 300)[:length], *end])
        assert may_loop(without_blanks(text)) or not loops(text)


def test_a_loop_that_counts_is_looked_at() -> None:
    lines = "".join(f"Step {n}: take the next one of the small stones and put it down. " for n in range(95, 108))
    assert counts(lines)
    assert may_count(without_blanks("It begins so. " + lines))
    assert not may_count(without_blanks(lines + "And that was the end of it, at last."))


def test_most_ordinary_texts_are_not_looked_at_any_closer() -> None:
    folder = Path(degeneration.__file__).parent
    sources = [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]
    texts = [source[start : start + 1_500] for source in sources for start in range(0, len(source) - 1_500, 1_500)]
    assert len(texts) > 50
    assert sum(may_loop(without_blanks(text)) for text in texts) < 0.05 * len(texts)
