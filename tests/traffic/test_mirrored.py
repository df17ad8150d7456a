"""What is kept of a mirrored request, and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vllm_gate.traffic.conversation import conversation_of
from vllm_gate.traffic.mirrored import Copy, endpoint_of, request_of
from vllm_gate.traffic.request import CHAT, COMPLETIONS, Skipped, TrafficRequest

ASKED = {"role": "user", "content": "What is nginx?"}
BODY = {"model": "llama", "messages": [ASKED], "temperature": 0.2, "stream": True}


def taken(body: Any, path: str = CHAT, session: str = "") -> TrafficRequest | Skipped:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request_of(Copy(3, path, content, session))


def test_a_chat_as_it_was_sent() -> None:
    request = taken(BODY)
    assert isinstance(request, TrafficRequest)
    assert (request.id, request.line, request.endpoint, request.recorded) == ("copy 3", 3, CHAT, None)
    assert request.body == BODY


def test_no_key_travels() -> None:
    request = taken(
        {**BODY, "api_key": "sk-planted", "Authorization": "Bearer planted", "extra_headers": {"k": "planted"}}
    )
    assert isinstance(request, TrafficRequest)
    assert request.body == BODY


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/v1/chat/completions", CHAT),
        ("/llama/v1/chat/completions/?key=planted", CHAT),
        ("/v1/completions", COMPLETIONS),
        ("/v1/embeddings", ""),
        ("/v1/chat/completions/x", ""),
        ("/", ""),
    ],
)
def test_the_endpoint_is_the_paths_end(path: str, endpoint: str) -> None:
    assert endpoint_of(path) == endpoint


@pytest.mark.parametrize(
    ("body", "path", "reason", "bad"),
    [
        (BODY, "/v1/embeddings", "path /v1/embeddings", False),
        (b"\xff{", CHAT, "a body that is not JSON", True),
        (b"[" * 100_000, CHAT, "a body that is not JSON", True),
        ([BODY], CHAT, "a body that is no JSON object", True),
        ({"model": "llama"}, CHAT, "no messages or prompt", True),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            CHAT,
            "unsupported part: image_url",
            False,
        ),
    ],
)
def test_what_is_no_request_to_replay_is_told(body: Any, path: str, reason: str, bad: bool) -> None:
    assert taken(body, path) == Skipped(reason, 3, bad=bad)


def test_a_conversation_is_what_a_header_names_or_how_it_began() -> None:
    def session(body: Any, named: str = "") -> str:
        request = taken(body, session=named)
        assert isinstance(request, TrafficRequest)
        return request.session

    told = {"role": "system", "content": "Be brief."}
    later = [ASKED, {"role": "assistant", "content": "A server."}, {"role": "user", "content": "Whose?"}]
    assert session(BODY, "s-1") == "s-1"
    assert session(BODY) == session({**BODY, "messages": later})
    assert session({"messages": [told, ASKED]}) == session({"messages": [told, *later]}) != session(BODY)
    assert session({"messages": [told, *later[1:]]}) != session({"messages": [told, ASKED]})


def test_a_request_without_messages_stands_for_itself() -> None:
    assert conversation_of({"prompt": "Once"}) == ""
    assert conversation_of({"messages": []}) == ""
    assert conversation_of({"messages": "x"}) == ""
    assert conversation_of({"messages": [None, ASKED]}) != conversation_of({"messages": [None, None]})
