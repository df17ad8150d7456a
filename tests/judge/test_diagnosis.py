"""Each way of being wrong gets its own word, on token ids first."""

from __future__ import annotations

import math

import pytest

from vllm_gate.judge.diagnosis import REMEDIES, Observed, diagnose, diagnose_hang, diagnose_status

PROMPT = "Reply with exactly: OK"


def symptom(observed: Observed, expected: str = "OK") -> str:
    return diagnose(expected, observed, prompt=PROMPT).symptom


def test_sixteen_zeros_are_the_argmax_of_nan_logits() -> None:
    found = diagnose("OK", Observed(text="!" * 16, token_ids=[0] * 16), prompt=PROMPT)
    assert found.symptom == "nan_argmax"
    assert found.sentence.startswith("16 × token id 0, the argmax of NaN logits")


def test_zeros_are_seen_behind_an_empty_text() -> None:
    found = diagnose("OK", Observed(text="", token_ids=[0] * 16, finish_reason="length"), prompt=PROMPT)
    assert found.symptom == "nan_argmax"
    assert "empty text" in found.sentence


def test_nan_that_begins_after_a_healthy_start_is_still_nan() -> None:
    assert symptom(Observed(text="Sure" + "!" * 8, token_ids=[312, 77] + [0] * 8)) == "nan_argmax"
    assert symptom(Observed(text="Sure!!!", token_ids=[312, 77, 5, 0, 0, 0])) != "nan_argmax"


def test_exclamation_marks_without_ids_are_read_as_nan_but_not_called_proven() -> None:
    found = diagnose("OK", Observed(text="!" * 16), prompt=PROMPT)
    assert found.symptom == "nan_argmax"
    assert "no token ids to prove it" in found.sentence
    assert symptom(Observed(text="!" * 8)) == "nan_argmax"
    assert symptom(Observed(text="!" * 7)) == "one_token_repeated"
    assert symptom(Observed(text="OK!!!")) == "near_miss"


def test_a_proof_of_nan_wins_over_the_look_of_the_text() -> None:
    found = diagnose("OK", Observed(text="", completion_tokens=16, nan_proof="HTTP 400 with logprobs"), prompt=PROMPT)
    assert found.symptom == "nan_argmax"
    assert "HTTP 400 with logprobs" in found.sentence


def test_the_same_token_over_and_over_that_is_not_zero() -> None:
    found = diagnose("OK", Observed(text="the" * 16, token_ids=[279] * 16), prompt=PROMPT)
    assert found.symptom == "one_token_repeated"
    assert found.sentence.startswith("16 × token id 279")
    assert symptom(Observed(text="</think> </think> </think> </think>")) == "loop"
    words = diagnose("OK", Observed(text="no no no no"), prompt=PROMPT)
    assert (words.symptom, words.sentence) == ("one_token_repeated", "4 × 'no': 'no no no no'")


def test_a_period_of_several_tokens_is_a_loop() -> None:
    found = diagnose("OK", Observed(text="I will I will I will", token_ids=[40, 690] * 5), prompt=PROMPT)
    assert found.symptom == "loop"
    assert found.sentence.startswith("5 × the same 2 tokens")


def test_a_loop_inside_the_reasoning_is_seen() -> None:
    assert symptom(Observed(text="", reasoning="wait " * 16, token_ids=[9] * 16)) == "one_token_repeated"
    assert symptom(Observed(text=" ", reasoning="wait " * 16)) == "one_token_repeated"


def test_an_empty_text_with_tokens_behind_it() -> None:
    known = diagnose("OK", Observed(text="", token_ids=[151643, 7, 22, 151644], finish_reason="length"), prompt=PROMPT)
    unknown = diagnose("OK", Observed(text=" ", completion_tokens=16, finish_reason="length"), prompt=PROMPT)
    assert known.symptom == unknown.symptom == "empty_text"
    assert "4 tokens" in known.sentence
    assert "151643" in known.sentence
    assert "16 tokens" in unknown.sentence
    eight = diagnose("OK", Observed(text="", token_ids=list(range(8))), prompt=PROMPT).sentence
    nine = diagnose("OK", Observed(text="", token_ids=list(range(9))), prompt=PROMPT).sentence
    assert eight.endswith("ids 0, 1, 2, 3, 4, 5, 6, 7)")
    assert nine.endswith("ids 0, 1, 2, 3, 4, 5, 6, 7, …)")
    special = diagnose("OK", Observed(text="", token_ids=[2153] * 16), prompt=PROMPT)
    assert special.symptom == "empty_text"
    assert "16 tokens" in special.sentence
    assert "first token already ended it" in diagnose("OK", Observed(text="", token_ids=[]), prompt=PROMPT).sentence


def test_thinking_that_ate_the_budget_is_truncated_not_corrupt() -> None:
    spent = Observed(text="", reasoning="The user wants me to say", completion_tokens=16, finish_reason="length")
    assert symptom(spent) == "truncated"
    assert symptom(Observed(text="<think>\nThe user wants", finish_reason="length")) == "truncated"


def test_uniform_noise_is_known_by_its_logprobs() -> None:
    vocabulary = 150_000
    level = -math.log(vocabulary)
    noise = Observed(
        text=" Demp Schul.scalablytyped373",
        token_ids=[5, 1, 9, 3],
        chosen_logprobs=[level] * 4,
        top_logprobs=[[level] * 20] * 4,
    )
    assert symptom(noise) == "uniform_noise"


def test_a_flat_row_is_noise_even_over_a_small_vocabulary() -> None:
    level = -math.log(64)
    flat = Observed(text="qx vv jk", chosen_logprobs=[level] * 3, top_logprobs=[[level] * 5] * 3)
    assert symptom(flat) == "uniform_noise"


def test_a_confident_wrong_answer_is_not_noise() -> None:
    sure = Observed(text="Paris", chosen_logprobs=[-0.1], top_logprobs=[[-0.1, -3, -5, -6, -7]])
    assert symptom(sure) == "wrong_answer"


def test_a_mixture_of_scripts_is_noise_without_any_logprob() -> None:
    assert symptom(Observed(text="кот 漢 ไทย zzz")) == "uniform_noise"
    assert symptom(Observed(text="кот 漢 zzz")) == "wrong_script"


def test_undecodable_bytes_are_noise() -> None:
    assert symptom(Observed(text="ab\ufffd def\ufffd")) == "uniform_noise"
    assert symptom(Observed(text="ab\ufffd defghijk")) == "wrong_answer"


def test_a_last_character_that_was_cut_in_two_is_not_noise() -> None:
    assert symptom(Observed(text="抱歉，这个\ufffd", finish_reason="length")) == "wrong_script"


def test_one_foreign_script_is_named() -> None:
    found = diagnose("OK", Observed(text="ตกลงครับ"), prompt=PROMPT)
    assert found.symptom == "wrong_script"
    assert "Thai" in found.sentence
    assert symptom(Observed(text="abcdщ")) == "wrong_script"
    assert symptom(Observed(text="abcdeщ")) == "wrong_answer"
    assert diagnose("ตกลง", Observed(text="ไม่ใช่เลยครับ"), prompt=PROMPT).symptom == "wrong_answer"


@pytest.mark.parametrize("text", ["ok", "OK.", "Sure! OK", "**OK**"])
def test_right_words_in_the_wrong_letters_are_a_near_miss(text: str) -> None:
    assert symptom(Observed(text=text, finish_reason="stop")) == "near_miss"


@pytest.mark.parametrize("text", ["I'm sorry, but I can't do that.", "As an AI model, I have no OK"])
def test_a_refusal_is_a_refusal(text: str) -> None:
    assert symptom(Observed(text=text, finish_reason="stop")) == "refusal"


def test_a_refusal_in_the_prompts_own_language_is_one_too() -> None:
    assert diagnose("好", Observed(text="抱歉，我无法回答"), prompt="请只回答：好").symptom == "refusal"


def test_an_answer_cut_before_its_end_is_truncated() -> None:
    assert symptom(Observed(text="one, two", finish_reason="length"), "one, two, three") == "truncated"
    early = diagnose("one, two, three", Observed(text="one, two", finish_reason="stop"))
    assert early.symptom == "truncated"
    assert "finish reason 'stop'" in early.sentence
    assert symptom(Observed(text="two, three", finish_reason="length"), "one, two, three") == "near_miss"
    assert symptom(Observed(text='{"city": "Par', finish_reason="length"), expected="") == "truncated"
    assert symptom(Observed(text='{"city": "Par', finish_reason="stop"), expected="") == "wrong_answer"
    assert symptom(Observed(text="The city of", finish_reason="length"), expected="") == "wrong_answer"
    assert symptom(Observed(text="<think> a </think> b", finish_reason="length")) == "wrong_answer"


def test_a_server_that_reads_its_own_ids_differently_has_the_wrong_tokenizer() -> None:
    found = diagnose("OK", Observed(text="Zx", token_ids=[11, 12], detokenized="OK"), prompt=PROMPT)
    assert found.symptom == "tokenizer_mismatch"
    assert symptom(Observed(text="Zx", token_ids=[11, 12], detokenized="Zx")) == "wrong_answer"


def test_special_tokens_that_only_one_reading_shows_are_no_mismatch() -> None:
    shown = Observed(text="Zx", token_ids=[11, 12, 2], detokenized="<think> </think>\n Zx<|im_end|>\ufffd")
    assert symptom(shown) == "wrong_answer"


def test_http_errors_are_told_apart() -> None:
    assert diagnose_status(500, "boom").symptom == "http_error"
    assert diagnose_status(404, "no such model").symptom == "refused_request"
    assert diagnose_status(401, "no key").symptom == "no_access"
    assert diagnose_status(403, "no key").symptom == "no_access"
    assert diagnose_status(400, "Out of range float values", nonfinite=True).symptom == "nan_argmax"


def test_a_hang_is_told_with_what_the_client_saw() -> None:
    found = diagnose_hang("no answer within 120 s")
    assert found.symptom == "hang"
    assert "within 120 s" in found.sentence


def test_a_sentence_stays_short_whatever_the_model_wrote() -> None:
    assert len(diagnose("OK", Observed(text="word salad " * 1000), prompt=PROMPT).sentence) < 400


def test_every_symptom_has_a_remedy() -> None:
    assert all(REMEDIES.values())
    assert diagnose_status(500, "boom").remedy == REMEDIES["http_error"]
