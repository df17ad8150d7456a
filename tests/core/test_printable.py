"""Hostile text is shown, and steers nothing."""

from hypothesis import given
from hypothesis import strategies as st

from vllm_gate.core.printable import excerpt, printable


def test_terminal_control_sequences_become_visible() -> None:
    assert printable("\x1b[2J\x07gone\r") == "\\x1b[2J\\x07gone\\r"


def test_direction_marks_and_zero_width_characters_become_visible() -> None:
    assert printable("safe\u202egnp.exe\u200b") == "safe\\u{202e}gnp.exe\\u{200b}"


def test_ordinary_text_of_any_script_is_left_alone() -> None:
    text = "Grüße, 你好, สวัสดี, مرحبا 🙂\n\tok"
    assert printable(text) == text


def test_one_line_escapes_line_ends() -> None:
    assert printable("a\nb\tc", one_line=True) == "a\\nb\\tc"


@given(st.text())
def test_nothing_that_steers_is_left(text: str) -> None:
    assert all(character.isprintable() or character in "\n\t" or character.isspace() for character in printable(text))
    assert "\x1b" not in printable(text)


def test_an_excerpt_is_bounded_and_says_what_it_left_out() -> None:
    assert excerpt("!" * 16) == '"!!!!!!!!!!!!!!!!"'
    assert excerpt("x" * 130) == f'"{"x" * 120}" (+10 characters)'
