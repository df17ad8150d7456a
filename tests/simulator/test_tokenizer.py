"""Text survives the way to token ids and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vllm_gate.simulator.tokenizer import tokenizer


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert tokenizer().decode(tokenizer().encode(text)) == text


def test_token_zero_is_the_exclamation_mark() -> None:
    assert tokenizer().encode("!") == [0]


def test_special_tokens_in_a_text_are_text() -> None:
    assert tokenizer().special("<|im_end|>") not in tokenizer().encode("<|im_end|>")


def test_a_conversation_ends_where_the_answer_begins() -> None:
    ids = tokenizer().chat([{"role": "user", "content": "Hi"}])
    shown = tokenizer().decode(ids, skip_special=False)
    assert shown == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
