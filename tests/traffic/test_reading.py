"""Every traffic format, from rows written by hand after their own documentation; damage is counted with its line."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_gate.errors import FileProblem
from vllm_gate.traffic.reading import LINE_LIMIT, read_traffic
from vllm_gate.traffic.request import CHAT, COMPLETIONS, Tally, TrafficRequest

HELLO = [{"role": "user", "content": "Hello"}]
BATCH: dict[str, Any] = {
    "custom_id": "r-1",
    "method": "POST",
    "url": CHAT,
    "body": {"model": "m", "messages": HELLO, "user": "u7"},
}
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
LITELLM: dict[str, Any] = {
    "id": "chatcmpl-1",
    "trace_id": "t-9",
    "call_type": "acompletion",
    "status": "success",
    "cache_hit": False,
    "model": "gpt",
    "messages": HELLO,
    "model_parameters": {"temperature": 0.2, "stream": True, "api_key": "sk-planted", "tools": None},
    "response": ANSWER,
}


def read(*rows: Any) -> tuple[list[TrafficRequest], Tally]:
    tally = Tally()
    lines = (row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)
    return list(read_traffic(lines, "traffic.jsonl", tally)), tally


def test_openai_batch() -> None:
    (request,), tally = read(BATCH)
    assert (request.id, request.endpoint, request.line) == ("r-1", CHAT, 1)
    assert (request.body, request.recorded) == (BATCH["body"], None)
    assert (tally.requests, tally.bad) == (1, 0)


def test_a_conversation_is_known_by_its_opening_and_not_by_its_user() -> None:
    later = [*HELLO, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And now?"}]
    others = [{"role": "user", "content": "What is nginx?"}]
    batches = [{**BATCH, "body": {**BATCH["body"], "messages": messages}} for messages in (HELLO, later, others)]
    first, second, third = (request.session for request in read(*batches)[0])
    assert first == second != third, "all three are of one user"
    untraced = {key: value for key, value in LITELLM.items() if key != "trace_id"}
    assert [request.session for request in read({**untraced, "end_user": "u7"})[0]] == [first]


def test_openai_batch_with_its_answer() -> None:
    (request,), _ = read({**BATCH, "response": {"status_code": 200, "body": ANSWER}})
    assert request.recorded == ANSWER
    (failed,), _ = read({**BATCH, "response": {"status_code": 500, "body": {"error": "x"}}})
    assert failed.recorded is None


def test_litellm_without_what_must_not_travel() -> None:
    (request,), _ = read(LITELLM)
    assert request.body == {"temperature": 0.2, "messages": HELLO}
    assert (request.id, request.session, request.recorded) == ("chatcmpl-1", "t-9", ANSWER)


def test_litellm_rows_that_say_nothing_of_the_model_are_left_out_and_counted() -> None:
    requests, tally = read(LITELLM, {**LITELLM, "cache_hit": True}, {**LITELLM, "call_type": "aembedding"})
    assert len(requests) == 1
    assert tally.skipped == {"answered from LiteLLM's cache": 1, "call type aembedding": 1}
    assert tally.bad == 0


def _pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    def typed(value: Any) -> dict[str, Any]:
        kinds = {str: "stringValue", float: "doubleValue"}
        if isinstance(value, list):
            return {"arrayValue": {"values": [typed(item) for item in value]}}
        return {"intValue": str(value)} if isinstance(value, int) else {kinds[type(value)]: value}

    return [{"key": key, "value": typed(value)} for key, value in values.items()]


SPAN = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.max_tokens": 64,
    "gen_ai.request.temperature": 0.5,
    "gen_ai.request.stop_sequences": ["END"],
    "gen_ai.conversation.id": "c-3",
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
    "gen_ai.input.messages": json.dumps(
        [
            {"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]},
            {
                "role": "assistant",
                "parts": [{"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Paris"}}],
            },
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "rainy"}]},
        ]
    ),
    "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "It rains."}], "finish_reason": "stop"}]
    ),
}


@pytest.mark.parametrize(
    "row",
    [
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "s1", "attributes": _pairs(SPAN)}]}]}]},
        {"span_id": "s1", "name": "chat", "attributes": SPAN},
    ],
)
def test_opentelemetry_as_exported_and_a_span_a_line(row: dict[str, Any]) -> None:
    (request,), _ = read(row)
    assert (request.id, request.session) == ("s1", "c-3")
    assert request.body == {
        "max_tokens": 64,
        "temperature": 0.5,
        "stop": ["END"],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather in Paris?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "rainy"},
        ],
    }
    assert request.recorded == {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "It rains."}, "finish_reason": "stop"}]
    }


def test_spans_of_other_kinds_and_without_content_are_counted() -> None:
    other = {"span_id": "a", "name": "x", "attributes": {"gen_ai.operation.name": "embeddings"}}
    bare = {"span_id": "b", "name": "x", "attributes": {"gen_ai.operation.name": "chat"}}
    requests, tally = read(other, bare)
    assert requests == []
    assert tally.skipped == {"no chat span": 1, "a span without its messages: content capture was off": 1}


def test_sharegpt_asks_at_each_human_turn_with_all_before_it() -> None:
    turns = [{"from": "human", "value": "A"}, {"from": "gpt", "value": "B"}, {"from": "human", "value": "C"}]
    (first, second), _ = read({"id": "conv", "conversations": turns})
    assert first.body["messages"] == [{"role": "user", "content": "A"}]
    assert [message["role"] for message in second.body["messages"]] == ["user", "assistant", "user"]
    assert first.session == second.session == "conv"
    assert first.id != second.id


def test_vllm_bench() -> None:
    (request,), _ = read({"prompt": "Once upon", "output_tokens": 12})
    assert (request.endpoint, request.body) == (COMPLETIONS, {"prompt": "Once upon", "max_tokens": 12})


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_what_a_text_model_can_not_be_asked_is_counted_and_never_cut_out(kind: str) -> None:
    parts = [{"type": "text", "text": "what is this?"}, {"type": kind}]
    row = {**BATCH, "body": {"messages": [{"role": "user", "content": parts}]}}
    requests, tally = read(row, BATCH)
    assert len(requests) == 1
    assert tally.skipped == {f"unsupported part: {kind}": 1}


def test_a_few_bad_rows_are_told_with_their_lines() -> None:
    rows: list[Any] = [BATCH] * 300
    rows[4] = b"{"
    rows[120] = {"custom_id": "x", "body": {"messages": []}}
    requests, tally = read(*rows)
    assert (len(requests), tally.bad) == (298, 2)
    assert tally.first_bad == [(5, "not JSON"), (121, "no messages or prompt")]


def test_too_many_bad_rows_stop_the_reading_with_the_first_lines() -> None:
    with pytest.raises(FileProblem, match="line 2: not JSON") as problem:
        read(*[BATCH, b"\xff\xfe"] * 150)
    assert "known formats: OpenAI Batch" in problem.value.hint


def test_a_file_of_another_kind_is_refused_at_once() -> None:
    with pytest.raises(FileProblem, match="10 of 10 rows"):
        read(*[{"level": "INFO", "msg": "x"}] * 1_000)


def test_a_line_of_no_sensible_length_is_bad_and_not_parsed() -> None:
    _, tally = read(BATCH, b'"' + b"x" * LINE_LIMIT + b'"')
    assert tally.first_bad == [(2, "a line of more than 16 MiB")]


def test_nothing_is_no_traffic_and_no_error() -> None:
    assert read() == ([], Tally())
    assert read(b"\n", b"  \n")[0] == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = (
    "custom_id",
    "body",
    "response",
    "call_type",
    "messages",
    "resourceSpans",
    "attributes",
    "conversations",
    "prompt",
)


@given(
    st.dictionaries(st.sampled_from((*KEYS, "conversations", "prompt", "span_id", "url", "id")), VALUES, max_size=6)
    | VALUES
    | st.binary()
)
def test_no_row_crashes_the_reader(row: Any) -> None:
    try:
        requests, tally = read(BATCH, row if isinstance(row, bytes) else json.dumps(row).encode())
    except FileProblem:
        return
    assert len(requests) == tally.requests >= 1
