"""The Anthropic messages dialect: the same questions and answers in other words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.server.loopback import Answer, Loopback, Request, http, sse

from vllm_gate.core.secret import Secret
from vllm_gate.errors import NoAnswer, UnusableAnswer
from vllm_gate.server.anthropic_requests import left_out, request_body
from vllm_gate.server.connect import connect
from vllm_gate.server.interface import ConnectedService
from vllm_gate.server.reply import Refusal, Reply

KEY = "sk-ant-planted-0123456789"
HELLO: list[dict[str, object]] = [{"role": "user", "content": "Hello"}]
ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}},
}
MESSAGE = {
    "type": "message",
    "model": "m",
    "content": [{"type": "text", "text": "OK"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 4},
}


@contextmanager
def asking(answer: Answer | Callable[[Request], Answer]) -> Iterator[tuple[ConnectedService, Loopback]]:
    with Loopback(answer if callable(answer) else lambda _: answer) as server:
        yield (
            connect(
                name="s",
                base_url=server.base_url,
                model="m",
                api="anthropic",
                api_key=Secret(KEY),
                timeout_s=5,
            ),
            server,
        )


def body(*messages: dict[str, object], **extra: object) -> dict[str, Any]:
    return request_body("m", messages, 16, extra)


# --- requests ----------------------------------------------------------------------------------------------------


def test_a_request_carries_the_key_and_the_version_in_this_apis_headers() -> None:
    with asking(http(MESSAGE)) as (service, server):
        service.chat([{"role": "system", "content": "Be brief."}, *HELLO], max_tokens=16)
    (request,) = server.requests
    assert request.path == "/v1/messages"
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in request.headers
    assert request.json == {
        "model": "m",
        "max_tokens": 16,
        "temperature": 0,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hello"}],
    }


def test_system_and_developer_texts_of_either_form_are_joined() -> None:
    parts = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
    assert body({"role": "system", "content": parts}, {"role": "developer", "content": "Now."})["system"] == (
        "Be brief.\nNow."
    )


def test_tools_are_renamed() -> None:
    assert body(tools=[ADD])["tools"] == [
        {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {}}}
    ]


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": {"type": "function", "function": {"name": "add"}}}, {"type": "tool", "name": "add"}),
        ({"parallel_tool_calls": True}, None),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        ({"tool_choice": "required", "parallel_tool_calls": False}, {"type": "any", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choice(asked: dict[str, object], sent: object) -> None:
    assert body(tools=[ADD], **asked).get("tool_choice") == sent
    assert "tool_choice" not in body(**asked), "without tools there is nothing to choose"


def test_a_turn_of_tool_calls_and_its_results_are_content_blocks() -> None:
    def call(name: str, arguments: str) -> dict[str, object]:
        return {"id": name, "type": "function", "function": {"name": "add", "arguments": arguments}}

    turns = body(
        {"role": "user", "content": "1+1, 2+2"},
        {"role": "assistant", "content": "Adding.", "tool_calls": [call("a", '{"x": 1}'), call("b", "{broken")]},
        {"role": "tool", "tool_call_id": "a", "content": "2"},
        {"role": "tool", "tool_call_id": "b", "content": "4"},
        {"role": "user", "content": "Thanks."},
    )["messages"]
    assert turns == [
        {"role": "user", "content": "1+1, 2+2"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Adding."},
                {"type": "tool_use", "id": "a", "name": "add", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "add", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "2"},
                {"type": "tool_result", "tool_use_id": "b", "content": "4"},
            ],
        },
        {"role": "user", "content": "Thanks."},
    ]


@pytest.mark.parametrize("stop", ["END", ["END"]])
def test_stop_texts_are_renamed(stop: object) -> None:
    assert body(stop=stop)["stop_sequences"] == ["END"]


def test_what_the_api_has_no_word_for_is_left_out_and_noted() -> None:
    with asking(http(MESSAGE)) as (service, server):
        for _ in range(2):
            service.chat(HELLO, max_tokens=1, logprobs=True, presence_penalty=0, temperature=0.5, seed=None)
    assert set(server.requests[0].json) == {"model", "max_tokens", "messages", "temperature"}
    assert service.notes == ("s: the Anthropic messages API has no logprobs, so it is left out",)


def test_fields_at_the_value_where_they_do_nothing_are_left_out_without_a_word() -> None:
    assert left_out({"repetition_penalty": 1, "min_p": 0, "tools": [], "top_k": 5, "stop": "x"}) == ()
    assert left_out({"repetition_penalty": 1.2, "response_format": {}, "seed": 7}) == (
        "repetition_penalty",
        "response_format",
        "seed",
    )


# --- answers -----------------------------------------------------------------------------------------------------


def test_a_message() -> None:
    with asking(http(MESSAGE)) as (service, _):
        answer = service.chat(HELLO, max_tokens=1)
    assert isinstance(answer, Reply)
    assert (answer.text, answer.finish_reason, answer.model) == ("OK", "stop", "m")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.cached_tokens) == (9, 2, 4)
    assert (answer.token_ids, answer.logprobs) == (None, None)


@pytest.mark.parametrize(
    ("stop_reason", "finish_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
        (None, ""),
    ],
)
def test_finish_reasons(stop_reason: str | None, finish_reason: str) -> None:
    with asking(http({**MESSAGE, "stop_reason": stop_reason})) as (service, _):
        answer = service.chat(HELLO, max_tokens=1)
    assert isinstance(answer, Reply)
    assert answer.finish_reason == finish_reason


def test_thinking_and_tool_use() -> None:
    content = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "A"},
        {"type": "tool_use", "id": "t", "name": "add", "input": {"x": "世", "y": 1}},
        {"type": "text", "text": "B"},
        {"type": "surprise", "text": "C"},
        "no block",
    ]
    with asking(http({**MESSAGE, "content": content})) as (service, _):
        answer = service.chat(HELLO, max_tokens=1)
    assert isinstance(answer, Reply)
    assert (answer.text, answer.reasoning) == ("AB", "hm")
    (call,) = answer.tool_calls
    assert (call.id, call.name, call.arguments, call.index) == ("t", "add", '{"x": "世", "y": 1}', 0)


def test_an_error_is_a_refusal_and_the_key_is_not_in_it() -> None:
    error = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid x-api-key {KEY}"}}
    with asking(http(error, 401)) as (service, _):
        answer = service.chat(HELLO, max_tokens=1)
        with pytest.raises(UnusableAnswer, match="HTTP 401"):
            service.models()
    assert isinstance(answer, Refusal)
    assert (answer.status, answer.message) == (401, "invalid x-api-key ***")
    assert KEY not in repr(answer)


@pytest.mark.parametrize("answer", [{}, {"content": "text"}, {"choices": []}])
def test_a_body_without_content_blocks_is_unusable(answer: dict[str, object]) -> None:
    with asking(http(answer)) as (service, _), pytest.raises(UnusableAnswer, match="no content blocks"):
        service.chat(HELLO, max_tokens=1)


def test_text_completions_are_refused_without_asking() -> None:
    with asking(http(MESSAGE)) as (service, server):
        answer = service.complete([1, 2], max_tokens=1)
    assert isinstance(answer, Refusal)
    assert (answer.status, server.requests) == (404, [])


def test_models() -> None:
    with asking(http({"data": [{"type": "model", "id": "m"}]})) as (service, server):
        assert [card.id for card in service.models()] == ["m"]
    assert server.paths == ["/v1/models"]


# --- streams -----------------------------------------------------------------------------------------------------

START = {"type": "message_start", "message": {"model": "m", "content": [], "usage": {"input_tokens": 9}}}
END = (
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)


def block(index: int, kind: str, **fields: object) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def piece(index: int, **fields: object) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def streamed(*events: object) -> Reply | Refusal:
    with asking(sse(*events, done=False)) as (service, _):
        return service.chat(HELLO, max_tokens=1, stream=True)


def test_a_stream_put_together() -> None:
    answer = streamed(
        START,
        block(0, "text", text=""),
        {"type": "ping"},
        piece(0, type="text_delta", text="O"),
        piece(0, type="text_delta", text="K"),
        {"type": "content_block_stop", "index": 0},
        *END,
    )
    assert isinstance(answer, Reply)
    assert (answer.text, answer.finish_reason, answer.streamed) == ("OK", "stop", True)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (9, 2)
    assert answer.first_token_s is not None
    assert 0 < answer.first_token_s <= answer.elapsed_s


def test_pieces_go_to_the_block_that_they_name() -> None:
    answer = streamed(
        START,
        block(0, "text", text=""),
        block(1, "tool_use", id="t", name="add", input={}),
        piece(1, type="input_json_delta", partial_json='{"x": '),
        piece(0, type="text_delta", text="Adding."),
        piece(1, type="input_json_delta", partial_json="1}"),
        *END,
    )
    assert isinstance(answer, Reply)
    assert answer.text == "Adding."
    assert [(call.id, call.name, call.arguments) for call in answer.tool_calls] == [("t", "add", '{"x": 1}')]


def test_arguments_that_broke_off_stay_broken() -> None:
    """Written anew as a JSON text, they would count as valid JSON of the wrong type."""
    answer = streamed(START, block(0, "tool_use", id="t", name="add", input={}), piece(0, partial_json='{"x": '), *END)
    assert isinstance(answer, Reply)
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.tool_calls[0].arguments)


def test_a_call_without_arguments_has_an_empty_object() -> None:
    answer = streamed(START, block(0, "tool_use", id="t", name="now", input={}), piece(0, partial_json=""), *END)
    assert isinstance(answer, Reply)
    assert answer.tool_calls[0].arguments == "{}"


def test_an_error_in_the_middle_of_a_stream_is_a_refusal() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answer = streamed(START, block(0, "text", text=""), error)
    assert isinstance(answer, Refusal)
    assert (answer.in_stream, answer.message) == (True, "Overloaded")


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    with pytest.raises(NoAnswer, match="broke off before message_stop") as failure:
        streamed(START, block(0, "text", text="O"))
    assert failure.value.reason == "closed"


@pytest.mark.parametrize(
    "event",
    [{"type": "message_start", "message": 1}, piece(0), {"type": "content_block_start"}, piece(7, text=None), {}],
)
def test_events_of_another_shape_are_read_as_far_as_they_go(event: dict[str, Any]) -> None:
    answer = streamed(START, event, block(1, "text", text="OK"), *END)
    assert isinstance(answer, Reply)
    assert answer.text == "OK"
