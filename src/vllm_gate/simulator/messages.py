"""`/v1/messages`: Anthropic's API in front of chat completions, as vLLM puts it there.

Wire format: the Anthropic Messages API, version 2023-06-01.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vllm_gate.simulator.tokenizer import content_text

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}

Event = tuple[str, dict[str, Any]]


def chat_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request as one for chat completions."""
    system = content_text({"content": body.get("system")})
    turns = [_turn(message) for message in body.get("messages") or []]
    chat = {key: body[key] for key in ("model", "max_tokens", "temperature", "stream", "cache_salt") if key in body}
    chat |= {"messages": [{"role": "system", "content": system}, *turns] if system else turns}
    chat |= {"stop": body.get("stop_sequences") or [], "stream_options": {"include_usage": True}}
    if tools := body.get("tools"):
        chat["tools"] = [
            {"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}}
            for tool in tools
        ]
        choice = body.get("tool_choice") or {"type": "auto"}
        named = {"type": "function", "function": {"name": choice.get("name")}}
        chat["tool_choice"] = named if choice["type"] == "tool" else _CHOICES[choice["type"]]
    return chat


def message(answer: Mapping[str, Any]) -> dict[str, Any]:
    """A chat completion as a message."""
    choice = answer["choices"][0]
    said = choice["message"]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": said["content"]}] if said["content"] else []
    blocks += [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"]),
        }
        for call in said.get("tool_calls", ())
    ]
    return {**_opened(answer), "content": blocks, **_ending(choice), "usage": _usage(answer["usage"])}


def events(chunks: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """A chat stream, which ends with its usage, as named events."""
    index, kind, ending = -1, "", _ending({"finish_reason": "stop"})
    for chunk in chunks:
        if not chunk["choices"]:
            usage = _usage(chunk["usage"])
            if kind:
                yield "content_block_stop", {"type": "content_block_stop", "index": index}
            yield "message_delta", {"type": "message_delta", "delta": ending, "usage": usage}
            yield "message_stop", {"type": "message_stop"}
            return
        choice = chunk["choices"][0]
        if "role" in choice["delta"]:
            empty = {**_opened(chunk), "content": [], "stop_reason": None, "stop_sequence": None}
            usage = {"input_tokens": 0, "output_tokens": 0}
            yield "message_start", {"type": "message_start", "message": {**empty, "usage": usage}}
        for opened, delta in _deltas(choice["delta"]):
            if opened and (opened["type"] != kind or kind == "tool_use"):
                if kind:
                    yield "content_block_stop", {"type": "content_block_stop", "index": index}
                index, kind = index + 1, opened["type"]
                yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": opened}
            if delta:
                yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        if choice["finish_reason"]:
            ending = _ending(choice)


def error(status: int, text: str) -> dict[str, Any]:
    """An error in this API's shape."""
    kind = {401: "authentication_error", 404: "not_found_error"}.get(
        status, "invalid_request_error" if status < 500 else "api_error"
    )
    return {"type": "error", "error": {"type": kind, "message": text}}


def _turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    """A turn of the conversation; a tool's result is a turn of its own in chat completions."""
    content = turn.get("content")
    results = [part for part in content if part.get("type") == "tool_result"] if isinstance(content, list) else []
    return {"role": "tool", "content": content_text(results[0])} if results else dict(turn)


def _deltas(delta: Mapping[str, Any]) -> Sequence[tuple[dict[str, Any], dict[str, Any]]]:
    """The content blocks that a chat delta opens, each with what it adds; either may be empty."""
    if text := delta.get("content"):
        return [({"type": "text", "text": ""}, {"type": "text_delta", "text": text})]
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for call in delta.get("tool_calls", ()):
        function = call["function"]
        opened = {"type": "tool_use", "id": call["id"], "name": function["name"], "input": {}} if "id" in call else {}
        arguments = function.get("arguments")
        found.append((opened, {"type": "input_json_delta", "partial_json": arguments} if arguments else {}))
    return found


def _opened(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": answer["id"], "type": "message", "role": "assistant", "model": answer["model"]}


def _ending(choice: Mapping[str, Any]) -> dict[str, Any]:
    stop = choice.get("stop_reason")
    reason = "stop_sequence" if stop else _STOP_REASONS[choice["finish_reason"]]
    return {"stop_reason": reason, "stop_sequence": stop}


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    counts = {"input_tokens": usage["prompt_tokens"] - cached, "output_tokens": usage["completion_tokens"]}
    return counts | {"cache_read_input_tokens": cached}
