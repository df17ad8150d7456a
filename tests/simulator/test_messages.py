"""`/v1/messages`: the same server in Anthropic's words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.simulator.asking import Client, serving

OK = [{"role": "user", "content": [{"type": "text", "text": "Reply with exactly: OK"}]}]
TOOLS = [
    {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
    {"name": "get_news", "input_schema": {"type": "object", "properties": {"topic": {"type": "string"}}}},
]
ASK = [{"role": "user", "content": 'Call get_weather with city: "Paris" and get_news with topic: "sport".'}]
CALLS = [("get_weather", '{"city": "Paris"}'), ("get_news", '{"topic": "sport"}')]


@pytest.fixture(scope="module")
def server() -> Iterator[Client]:
    with serving() as client:
        yield client


def ask(server: Client, messages: Any, **body: Any) -> Any:
    return server.post("/v1/messages", messages=messages, temperature=0, **{"max_tokens": 400, **body}).json()


def test_a_text_is_one_block(server: Client) -> None:
    answer = ask(server, OK, system="Be brief.")
    assert answer["content"] == [{"type": "text", "text": "OK"}]
    assert (answer["type"], answer["role"], answer["stop_reason"]) == ("message", "assistant", "end_turn")
    assert answer["usage"]["output_tokens"] == 3  # O, K, and the token that ends it


@pytest.mark.parametrize(
    ("body", "reason"), [({"max_tokens": 1}, "max_tokens"), ({"stop_sequences": ["OK"]}, "stop_sequence")]
)
def test_why_it_stopped(server: Client, body: Any, reason: str) -> None:
    assert ask(server, [{"role": "user", "content": "Say only: OK now"}], **body)["stop_reason"] == reason


def test_tools_are_blocks_of_their_own(server: Client) -> None:
    answer = ask(server, ASK, tools=TOOLS)
    blocks = [(block["type"], block["name"], block["input"]) for block in answer["content"]]
    assert blocks == [
        ("tool_use", "get_weather", {"city": "Paris"}),
        ("tool_use", "get_news", {"topic": "sport"}),
    ]
    assert answer["stop_reason"] == "tool_use"


def test_a_forced_tool_and_a_result(server: Client) -> None:
    forced = ask(server, OK, tools=TOOLS, tool_choice={"type": "tool", "name": "get_news"})
    assert [block["name"] for block in forced["content"]] == ["get_news"]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "get_news"}]}
    assert ask(server, [*ASK, result], tools=TOOLS)["stop_reason"] == "end_turn"


def test_a_streamed_text(server: Client) -> None:
    events = server.events("/v1/messages", messages=OK, max_tokens=9, temperature=0)
    assert [event["type"] for event in events if event["type"] != "content_block_delta"] == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta") == "OK"


def test_streamed_tools(server: Client) -> None:
    events = server.events("/v1/messages", messages=ASK, tools=TOOLS, max_tokens=400, temperature=0)
    found = [
        (
            start["content_block"]["name"],
            "".join(
                event["delta"]["partial_json"]
                for event in events
                if event["type"] == "content_block_delta" and event["index"] == start["index"]
            ),
        )
        for start in events
        if start["type"] == "content_block_start"
    ]
    assert found == CALLS


def test_an_error_has_this_apis_shape(server: Client) -> None:
    answer = server.post("/v1/messages", model="another", messages=OK, max_tokens=1)
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
