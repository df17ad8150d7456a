"""A service that speaks Anthropic messages. It knows no logprobs, no token ids and no text completions.

Wire format: the Anthropic Messages API (version 2023-06-01), which vLLM serves at `/v1/messages` as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm_gate.errors import NoAnswer, UnusableAnswer
from vllm_gate.server.interface import ModelCard
from vllm_gate.server.json_body import parse_object
from vllm_gate.server.parsing import refusal_from
from vllm_gate.server.reply import Answer, Refusal, Reply, ToolCall, Usage
from vllm_gate.server.roots import server_root
from vllm_gate.server.transport import RESET, EventStream, Transport
from vllm_gate.server.vllm_endpoints import VllmEndpoints

API_VERSION = "2023-06-01"
_FINISH_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
_PASSED_ON = ("temperature", "top_p", "top_k", "stop_sequences")


class AnthropicService(VllmEndpoints):
    """See `Service`. Request fields that the API does not know are left out."""

    notes: tuple[str, ...] = ()

    def __init__(self, transport: Transport, *, name: str, base_url: str, model: str) -> None:
        super().__init__(transport, server_root(base_url), model)
        self.name = name
        self.model = model
        self.base_url = base_url
        self._api = f"{server_root(base_url)}/v1"

    def chat(
        self, messages: Sequence[Mapping[str, object]], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        """See `Service`."""
        url = f"{self._api}/messages"
        body = request_body(self.model, messages, max_tokens, extra)
        if stream:
            with self._transport.stream(url, {**body, "stream": True}) as events:
                if events.status >= 300:
                    return refusal_from(events.status, events.rest(), elapsed_s=0.0)
                return read_stream(events, f"{self.name}: {url}")
        answer = self._transport.post(url, body)
        if answer.status >= 300:
            return refusal_from(answer.status, answer.body, elapsed_s=answer.elapsed_s)
        return reply_from(parse_object(answer.body, f"{self.name}: {url}").value, elapsed_s=answer.elapsed_s)

    def complete(
        self, prompt: str | Sequence[int], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        """Always a Refusal: this API has no completions of texts or token ids."""
        return Refusal(status=404, message="the Anthropic messages API has no text completions")

    def models(self) -> tuple[ModelCard, ...]:
        """See `Service`."""
        answer = self._transport.get(f"{self._api}/models", timeout_s=15.0)
        if answer.status != 200:
            refusal = refusal_from(answer.status, answer.body, elapsed_s=answer.elapsed_s)
            raise UnusableAnswer(f"{self.name}: {self._api}/models answers HTTP {refusal.status}: {refusal.message}")
        entries = parse_object(answer.body, f"{self._api}/models").value.get("data")
        found = entries if isinstance(entries, list) else []
        return tuple(ModelCard(id=str(entry.get("id", ""))) for entry in found if isinstance(entry, dict))


def request_body(
    model: str, messages: Sequence[Mapping[str, object]], max_tokens: int, extra: Mapping[str, object]
) -> dict[str, Any]:
    """A chat in OpenAI's form as a request of this API: system text apart, tools and tool choice renamed."""
    system = "\n".join(str(message["content"]) for message in messages if message.get("role") == "system")
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens,
        "messages": [dict(message) for message in messages if message.get("role") != "system"],
        "temperature": 0,
        **{key: extra[key] for key in _PASSED_ON if key in extra},
    }
    if system:
        body["system"] = system
    tools = extra.get("tools")
    if isinstance(tools, list):
        body["tools"] = [_tool(tool["function"]) for tool in tools]
        if choice := _tool_choice(extra.get("tool_choice")):
            body["tool_choice"] = choice
    return body


def reply_from(raw: Mapping[str, Any], *, elapsed_s: float) -> Reply:
    """A `Reply` from a whole message. Raises UnusableAnswer without content blocks."""
    blocks = raw.get("content")
    if not isinstance(blocks, list):
        raise UnusableAnswer(f"the answer holds no content blocks, only {sorted(raw)[:8]}")
    reason = str(raw.get("stop_reason") or "")
    return Reply(
        text="".join(block.get("text", "") for block in blocks if block.get("type") == "text"),
        reasoning="".join(block.get("thinking", "") for block in blocks if block.get("type") == "thinking"),
        tool_calls=tuple(
            ToolCall(
                id=str(block.get("id", "")),
                name=str(block.get("name", "")),
                arguments=json.dumps(block.get("input"), ensure_ascii=False),
                index=index,
            )
            for index, block in enumerate(block for block in blocks if block.get("type") == "tool_use")
        ),
        finish_reason=_FINISH_REASONS.get(reason, reason),
        usage=_usage(raw.get("usage") or {}),
        model=str(raw.get("model", "")),
        elapsed_s=elapsed_s,
        raw=raw,
    )


def read_stream(stream: EventStream, what: str) -> Answer:
    """A stream's events as one `Reply`; an error event makes it a `Refusal`."""
    message: dict[str, Any] = {"content": []}
    first_token_s, last_s, ended = None, 0.0, False
    for last_s, data in stream.events():
        event = parse_object(data, f"{what}: an event").value
        kind = event.get("type")
        if kind == "error":
            return refusal_from(500, json.dumps(event.get("error")).encode(), elapsed_s=last_s, in_stream=True)
        if kind == "content_block_delta" and first_token_s is None:
            first_token_s = last_s
        _add(message, event)
        ended = ended or kind == "message_stop"
    if not ended:
        raise NoAnswer(f"{what}: the stream broke off before message_stop", reason=RESET)
    for block in message["content"]:
        if partial := block.pop("partial_json", ""):
            block["input"] = _parsed_or_text(partial)
    return replace(reply_from(message, elapsed_s=last_s), streamed=True, first_token_s=first_token_s)


def _add(message: dict[str, Any], event: Mapping[str, Any]) -> None:
    kind = event.get("type")
    if kind == "message_start":
        message |= event.get("message") or {}
        message["content"] = list(message.get("content") or [])
    elif kind == "content_block_start":
        message["content"].append(dict(event.get("content_block") or {}))
    elif kind == "content_block_delta" and message["content"]:
        delta, block = event.get("delta") or {}, message["content"][-1]
        for key in ("text", "thinking", "partial_json"):
            if isinstance(delta.get(key), str):
                block[key] = block.get(key, "") + delta[key]
    elif kind == "message_delta":
        message |= event.get("delta") or {}
        message["usage"] = {**(message.get("usage") or {}), **(event.get("usage") or {})}


def _parsed_or_text(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function.get("parameters") or {"type": "object"},
    }


def _tool_choice(choice: object) -> dict[str, Any] | None:
    if isinstance(choice, dict):
        return {"type": "tool", "name": choice["function"]["name"]}
    return {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}.get(str(choice))


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        prompt_tokens=usage.get("input_tokens"),
        completion_tokens=usage.get("output_tokens"),
        cached_tokens=usage.get("cache_read_input_tokens"),
    )
