"""Many questions at once: each asked once, never more at a time than allowed, and stopped in time."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from vllm_gate.core.finding import EvidenceKind
from vllm_gate.errors import NoAnswer
from vllm_gate.gates.asking import answer_evidence, ask_all
from vllm_gate.server.reply import Refusal, Reply, ToolCall, Usage


@pytest.mark.parametrize("concurrency", [1, 3, 50])
def test_every_question_is_asked_once_and_told_with_its_number(concurrency: int) -> None:
    seen: dict[int, object] = {}

    def keep(index: int, result: object) -> bool:
        assert index not in seen
        seen[index] = result
        return False

    ask_all([partial(pow, number, 2) for number in range(10)], concurrency, keep)
    assert seen == {number: number**2 for number in range(10)}


def test_never_more_than_allowed_at_a_time() -> None:
    lock, under_way, most = threading.Lock(), 0, 0
    together = threading.Barrier(4, timeout=5)

    def ask() -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        together.wait()
        with lock:
            under_way -= 1

    ask_all([ask] * 12, 4, lambda *_: False)
    assert most == 4


def test_nothing_new_is_asked_once_it_is_enough_and_what_hangs_is_left() -> None:
    release = threading.Event()
    asked: list[int] = []

    def ask(number: int) -> int:
        asked.append(number)
        if number == 1:
            release.wait(5)
        return number

    ask_all([partial(ask, number) for number in range(10)], 2, lambda index, _: index == 2)
    assert sorted(asked) == [0, 1, 2]
    release.set()


def test_an_answer_that_never_came_is_a_result_and_a_bug_is_raised() -> None:
    def unanswered() -> int:
        raise NoAnswer("nothing", reason="refused")

    ask_all([unanswered], 1, lambda _, result: isinstance(result, NoAnswer) or pytest.fail(f"told {result!r}"))
    with pytest.raises(ZeroDivisionError):
        ask_all([lambda: 1 // 0], 1, lambda *_: False)


def test_no_question_is_no_work() -> None:
    ask_all([], 4, lambda *_: pytest.fail("nothing was asked"))


def test_evidence_shows_what_came_back_and_nothing_that_did_not() -> None:
    reply = Reply(
        text="hé",
        tool_calls=(ToolCall(id="1", name="add", arguments="{}"),),
        token_ids=(0, 7),
        usage=Usage(completion_tokens=2),
        finish_reason="stop",
    )
    shown = answer_evidence("answer", reply)
    assert shown.kind is EvidenceKind.RESPONSE
    assert shown.text.splitlines() == [
        'text: "hé"',
        'tool_calls: [{"name": "add", "arguments": "{}"}]',
        'finish_reason: "stop"',
        "token_ids: [0, 7]",
        "completion_tokens: 2",
    ]
    assert answer_evidence("answer", Reply()).text == 'text: ""'
    in_stream = Refusal(status=500, message="boom", body="{}", in_stream=True)
    assert answer_evidence("answer", in_stream).text == "HTTP 500 inside the stream: boom\n{}"
    assert answer_evidence("answer", NoAnswer("gone", reason="reset")).text == "no answer: gone"
