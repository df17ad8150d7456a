"""A lost fact is the release's fault only where the baseline keeps it, or where it is lost in text after text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pytest

from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.capability.long_prompt import LongPrompt
from vllm_gate.gates.capability.needles import Asked, Asker, is_garbage, judged
from vllm_gate.gates.capability.recall import Recall, judge_against, judge_alone
from vllm_gate.server.reply import Refusal, Reply

FACTS = tuple((f"gate {number}", str(10_000 + number)) for number in range(1, 6))
PROMPT = LongPrompt(tokens=4096, facts=FACTS, units=0, words=0)
EVERY = range(5)
Finds = Callable[[int], bool | None]


class Scripted:
    """A side that finds the fact of a depth when `finds` says so."""

    def __init__(self, finds: Finds) -> None:
        self.finds = finds
        self.asked = 0

    def ask(self, prompt: LongPrompt, depths: Sequence[int]) -> list[Asked]:
        self.asked += len(depths)
        return [Asked(prompt.tokens, depth, Reply(text="x"), self.finds(depth)) for depth in depths]


def against(ours: Finds, theirs: Finds) -> Recall | None:
    release, baseline = Scripted(ours), Scripted(theirs)
    first = release.ask(PROMPT, EVERY)
    return judge_against(first, cast("Asker", release), cast("Asker", baseline), PROMPT, lambda: PROMPT)


def alone(finds: Finds, threshold: float = 1.0) -> Recall:
    release = Scripted(finds)
    return judge_alone(release.ask(PROMPT, EVERY), cast("Asker", release), lambda: PROMPT, threshold)


def verdict(recall: Recall | None) -> Verdict | None:
    return recall.verdict if recall else None


@pytest.mark.parametrize("lost", [{0}, {0, 1, 2}, set(EVERY)])
def test_what_the_release_alone_loses_is_its_fault(lost: set[int]) -> None:
    assert verdict(against(lambda depth: depth not in lost, lambda _: True)) is Verdict.FAIL


@pytest.mark.parametrize("lost", [{0}, {0, 1, 2, 4}, set(EVERY)])
def test_what_the_baseline_loses_as_well_is_not(lost: set[int]) -> None:
    assert verdict(against(lambda depth: depth not in lost, lambda depth: depth not in lost)) is Verdict.PASS


def test_a_baseline_that_can_not_answer_decides_nothing() -> None:
    assert against(lambda _: False, lambda _: None) is None


def test_a_small_model_is_hardly_ever_blamed_for_being_as_small_as_before() -> None:
    """Both find two facts of five by chance, as 135M parameters do at 2,048 tokens."""
    rng = np.random.default_rng(4)
    runs = [against(lambda _: rng.random() < 0.4, lambda _: rng.random() < 0.4) for _ in range(1000)]
    assert sum(verdict(run) is Verdict.FAIL for run in runs) <= 16  # 99 % of Binomial(1000, .0112 at most) is below 20


def test_a_release_that_finds_three_facts_of_ten_where_the_baseline_finds_all_is_blamed() -> None:
    rng = np.random.default_rng(4)
    runs = [against(lambda _: rng.random() < 0.3, lambda _: True) for _ in range(200)]
    assert sum(verdict(run) is Verdict.FAIL for run in runs) >= 175
    assert sum(verdict(run) is Verdict.PASS for run in runs) <= 5


def test_without_a_baseline_every_fact_is_to_be_found() -> None:
    recall = alone(lambda depth: depth != 0)
    assert (recall.verdict, recall.share) == (Verdict.FAIL, 0.8)
    assert "in further texts too" in recall.why


def test_without_a_baseline_the_share_that_must_be_found_can_be_lowered() -> None:
    assert alone(lambda depth: depth in (0, 4), threshold=0.4).verdict is Verdict.PASS
    assert alone(lambda depth: depth == 0, threshold=0.4).verdict is Verdict.FAIL


def test_a_single_slip_blocks_nothing() -> None:
    slips = iter([False])
    recall = alone(lambda _: next(slips, True))
    assert recall.verdict is Verdict.PASS
    assert "in one text only" in recall.why


@pytest.mark.parametrize(
    ("text", "right", "garbage"),
    [
        ("10001", True, False),
        ("The access code of the gate 1 is 10,001.", True, False),
        ("<think>It says 10002?</think>10001", True, False),
        ("110001", False, False),
        ("The access code of the gate 1 is 51240.", False, False),
        ("The text does not mention the code of this gate.", False, False),
        ("", False, True),
        ("GOGround City My Dog window under light remember", False, True),
        ("!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!", False, True),
        ("\ufffd\ufffd", False, True),
        ("抱歉，这个问题的答案在另一种文字里。", False, True),
    ],
)
def test_answers_are_right_lost_or_garbage(text: str, right: bool, garbage: bool) -> None:
    one = judged(PROMPT, 0, Reply(text=text, finish_reason="stop"))
    assert (one.right, one.garbage) == (right, garbage)


def test_thinking_that_never_ends_and_refusals_are_not_judged() -> None:
    thinking = Reply(reasoning="Let me see, the code", finish_reason="length")
    assert judged(PROMPT, 0, thinking).right is None
    assert judged(PROMPT, 0, Reply(text="<think>Let me see", finish_reason="length")).right is None
    assert judged(PROMPT, 0, Refusal(status=400, message="too long")).right is None
    assert judged(PROMPT, 0, Refusal(status=500, message="boom")).right is False


def test_one_token_id_all_over_is_garbage_whatever_it_reads_like() -> None:
    assert is_garbage(Reply(token_ids=(0,) * 9), "10002", "What is the code?")
