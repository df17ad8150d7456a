"""What is left of a user's text."""

import pytest

from vllm_gate.traffic.redaction import redacted, shape


def test_a_shape_shows_how_a_text_looks_and_nothing_of_what_it_says() -> None:
    assert shape('{"name": "Ana Müller", "n": 42}') == '{"xxxx": "xxx xxxxxx", "x": 99}'
    assert shape("!!!! 你好 ok") == "!!!! ※※ xx"
    assert shape("a" * 1_000) == "x" * 400 + "…"


@pytest.mark.parametrize(
    "private",
    [
        "ana.mueller@example.org",
        "+49 170 1234567",
        "4111 1111 1111 1111",
        "sk-planted0123456789",
        "Bearer abcdef",
        "10.11.12.13",
    ],
)
def test_what_identifies_somebody_is_blacked_out(private: str) -> None:
    told = redacted(f"ask {private} please")
    assert private not in told
    assert told.startswith("ask ███")
    assert told.endswith("please")


def test_ordinary_words_and_numbers_stay() -> None:
    assert redacted("In 1999 there were 12,500 of 3 kinds.") == "In 1999 there were 12,500 of 3 kinds."


def test_the_users_own_patterns_are_blacked_out_too() -> None:
    assert redacted("case ACME-77 closed", (r"ACME-\d+",)) == "case ███ closed"
