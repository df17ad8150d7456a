"""Each way in which an answer with tools can be wrong has its own name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from vllm_gate.gates.capability.json_cases import corpus
from vllm_gate.gates.capability.tool_cases import CASES
from vllm_gate.gates.capability.tool_faults import difference, faults_of
from vllm_gate.judge.buckets import json_bucket
from vllm_gate.server.reply import Reply, ToolCall, Usage

RECORDED = json.loads((Path(__file__).parent / "recorded" / "small_model.json").read_text(encoding="utf-8"))
CASE = {case.id: case for case in CASES}
ROME = '{"city": "Rome", "days": 1}'


def call(arguments: str = ROME, name: str = "get_weather", identity: str = "call-1", index: int = 0) -> ToolCall:
    return ToolCall(id=identity, name=name, arguments=arguments, index=index)


def reply(*calls: ToolCall, finish_reason: str = "tool_calls", **fields: Any) -> Reply:
    return Reply(tool_calls=calls, finish_reason=finish_reason, **fields)


def kinds(case: str, answer: Reply) -> Sequence[str]:
    return [fault.kind for fault in faults_of(CASE[case], False, answer, 300)]


TIME = call('{"city": "Rome"}', "get_time", "call-2", 1)


@pytest.mark.parametrize(
    ("case", "answer", "expected"),
    [
        ("single", reply(call()), []),
        ("parallel", reply(call(), TIME), []),
        ("parallel", reply(TIME, finish_reason="tool_calls"), ["wrong_order", "parallel_merged"]),
        ("parallel", reply(call(), call(index=1)), ["same_id"]),
        ("parallel", reply(call(), call(identity="b", index=0)), ["wrong_order"]),
        ("single", reply(call(identity="")), ["no_id"]),
        ("single", reply(call(), finish_reason="stop"), ["wrong_finish_reason"]),
        ("forced", reply(call(), finish_reason="stop"), []),
        ("forced", reply(call('{"city": "Rome"}', "get_time")), ["choice_ignored"]),
        ("single", reply(call(name="get_wether")), ["UnknownName"]),
        ("single", reply(call('{"city": "Rome", "days": "1"}')), ["SchemaMismatch"]),
        ("single", reply(call('{"city": "Rome", ')), ["InvalidJson"]),
        ("single", reply(call('{"city": "Rome", '), finish_reason="length"), ["truncated"]),
        ("single", reply(call('{"city": "Rome", '), usage=Usage(completion_tokens=300)), ["truncated"]),
        ("single", reply(call('{"city": "Ro' + "ro" * 50), finish_reason="length"), ["runaway"]),
        ("none_allowed", reply(call()), ["unneeded_call"]),
        ("none_needed", reply(call()), []),
        ("none_needed", reply(text="OK", finish_reason="stop"), []),
        ("single", reply(text="I can't say.", finish_reason="stop"), []),
        ("single", reply(text="", finish_reason="tool_calls"), ["wrong_finish_reason"]),
        (
            "single",
            reply(text='<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>', finish_reason="stop"),
            ["call_in_text"],
        ),
        ("single", reply(text='<tool_call>{"name": "get_weather", "ar', finish_reason="length"), ["truncated"]),
        (
            "single",
            reply(reasoning='Rome. <tool_call>{"name": "get_weather"}</tool_call>', finish_reason="stop"),
            ["call_in_reasoning"],
        ),
        ("single", reply(text="!" * 300, token_ids=(0,) * 300, finish_reason="length"), ["garbage"]),
    ],
)
def test_each_way_to_be_wrong_has_its_own_name(case: str, answer: Reply, expected: Sequence[str]) -> None:
    assert kinds(case, answer) == expected


def test_streamed_arguments_are_compared_as_values_and_not_as_text() -> None:
    whole, streamed = reply(call()), reply(call('{"days": 1,  "city": "Rome"}'))
    assert difference(CASE["single"], {False: whole, True: streamed}) is None


@pytest.mark.parametrize(
    "streamed",
    [
        reply(call('{"city": "Rome", "days": 2}')),
        reply(call('{"city": "Rome"}', "get_time")),
        reply(TIME, call()),
        reply(finish_reason="stop"),
    ],
)
def test_a_streamed_call_that_says_something_else_is_a_fault(streamed: Reply) -> None:
    fault = difference(CASE["single"], {False: reply(call()), True: streamed})
    assert fault is not None
    assert fault.kind == "stream_differs"


@pytest.mark.parametrize("one", RECORDED["tools"], ids=lambda one: one["case"])
def test_calls_of_a_small_real_model_are_sorted_as_a_person_sorted_them(one: dict[str, Any]) -> None:
    usage = Usage(completion_tokens=one["completion_tokens"])
    assert kinds(one["case"], Reply(text=one["text"], finish_reason=one["finish_reason"], usage=usage)) == [one["kind"]]


@pytest.mark.parametrize("one", RECORDED["json"], ids=lambda one: one["schema"])
def test_json_of_a_small_real_model_is_sorted_as_a_person_sorted_it(one: dict[str, Any]) -> None:
    (schema,) = [case.schema for case in corpus() if case.id == one["schema"]]
    assert json_bucket(one["text"], schema, one["finish_reason"])[0] == one["bucket"]
