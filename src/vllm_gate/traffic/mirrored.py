"""A copy of a user's request, as a proxy mirrors it: its body alone is kept, so that no credential can travel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from vllm_gate.traffic.conversation import conversation_of
from vllm_gate.traffic.request import CHAT, COMPLETIONS, Skipped, TrafficRequest, chat_or_skipped

SESSION_HEADERS = ("x-session-id", "x-conversation-id")
"""Headers that name a conversation, where clients send one."""
_SECRETS = ("api_key", "api_base", "base_url", "extra_headers", "headers", "authorization")
"""Fields of a body that clients of some gateways put their keys into."""


@dataclass(frozen=True, slots=True)
class Copy:
    """What is kept of a mirrored request. `number` counts the copies from 1."""

    number: int
    path: str
    content: bytes
    session: str = ""


def request_of(copy: Copy) -> TrafficRequest | Skipped:
    """The request that the copy is of."""
    endpoint = endpoint_of(copy.path)
    if not endpoint:
        return Skipped(f"path {urlsplit(copy.path).path[:60]}", copy.number)
    try:
        body = json.loads(copy.content)
    except (ValueError, RecursionError):
        return Skipped("a body that is not JSON", copy.number, bad=True)
    if not isinstance(body, Mapping):
        return Skipped("a body that is no JSON object", copy.number, bad=True)
    kept: dict[str, Any] = {key: value for key, value in body.items() if key.lower() not in _SECRETS}
    request = TrafficRequest(
        id=f"copy {copy.number}",
        endpoint=endpoint,
        body=kept,
        session=copy.session or conversation_of(kept),
        line=copy.number,
    )
    return chat_or_skipped(request)


def endpoint_of(path: str) -> str:
    """The endpoint that the end of a path names, whatever prefix a proxy serves it under; "" for any other."""
    plain = urlsplit(path).path.rstrip("/")
    return next((endpoint for endpoint in (CHAT, COMPLETIONS) if plain.endswith(endpoint)), "")
