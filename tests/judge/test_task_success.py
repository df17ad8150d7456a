"""Each signal of failure on the smallest answer that shows it, on one that does not, and on both sides alike."""

import pytest

from vllm_gate.judge.task_success import Said, Task, failures, is_degenerate

WEATHER = {"weather": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}}
SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
FINE = Said(text="The capital of France is Paris.", finish_reason="stop")
CALL = Said(calls=(("weather", '{"city": "Paris"}'),), finish_reason="tool_calls")


def said(text: str = "", finish_reason: str = "stop", **fields: object) -> Said:
    return Said(text=text, finish_reason=finish_reason, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "own", "other", "signals"),
    [
        (Task(), FINE, FINE, ()),
        (Task(), said("Fine.", "content_filter"), FINE, ("finish_reason",)),
        (Task(), said("Fine.", ""), FINE, ()),
        (Task(), said("Paris is the capital and", "length"), FINE, ("ran_on",)),
        (Task(), said("Paris is the capital and", "length"), said("Paris is", "length"), ()),
        (Task(), FINE, said("Paris is", "length"), ()),
        (Task(), said("Fine.", nonfinite=1), FINE, ("nonfinite",)),
        (Task(wants_json=True), said('{"n": 1}'), FINE, ()),
        (Task(wants_json=True), said('{"n": 1'), FINE, ("json",)),
        (Task(wants_json=True, schema=SCHEMA), said('{"n": "1"}'), FINE, ("json",)),
        (Task(wants_json=True, schema=SCHEMA), said('{"n": 1}'), FINE, ()),
        (Task(tools=WEATHER), CALL, CALL, ()),
        (Task(tools=WEATHER), said(calls=(("weather", '{"city": 1}'),)), CALL, ("tool_call",)),
        (Task(tools=WEATHER), said(calls=(("weather", '{"city"'),)), CALL, ("tool_call",)),
        (Task(tools=WEATHER), said(calls=(("rain", "{}"),)), CALL, ("tool_call",)),
        (Task(tools=WEATHER), FINE, CALL, ("no_tool_call",)),
        (Task(tools=WEATHER), FINE, FINE, ()),
        (Task(tools=WEATHER, must_call=True), FINE, FINE, ("no_tool_call",)),
        (Task(), said("I'm sorry, but I can't help with that."), FINE, ("refusal",)),
        (Task(), said("I'm sorry, I can't."), said("As an AI I can't."), ()),
        (Task(), said("The answer ขอบคุณครับ is Paris"), FINE, ("script",)),
        (Task(prompt="แปลว่าอะไร"), said("The answer ขอบคุณครับ is Paris"), FINE, ()),
        (Task(), said("The answer ขอบคุณครับ is Paris"), said("ขอบคุณครับ"), ()),
        (
            Task(),
            said("The word λόγος has meant many things to many people " + "over the years that we know of " * 3),
            FINE,
            (),
        ),
        (Task(), said("!" * 400), FINE, ("degenerate:text:one_character", "degenerate:text:loop")),
        (Task(), said("the same " * 60), FINE, ("degenerate:text:loop",)),
        (Task(), said(""), FINE, ("degenerate:text:empty_text",)),
        (Task(), said("", reasoning="so be it. " * 40), FINE, ("degenerate:reasoning:loop",)),
        (
            Task(tools=WEATHER),
            said(calls=(("weather", '{"city": "' + "Paris " * 60 + '"}'),)),
            CALL,
            ("degenerate:arguments:loop",),
        ),
    ],
)
def test_signals(task: Task, own: Said, other: Said, signals: tuple[str, ...]) -> None:
    assert failures(task, own, other) == signals


def test_degeneration_is_told_apart_from_other_failures() -> None:
    assert is_degenerate(("json", "degenerate:text:loop"))
    assert not is_degenerate(("json", "ran_on"))
    assert not is_degenerate(())
