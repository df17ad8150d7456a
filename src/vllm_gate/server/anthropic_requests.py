"""A chat in OpenAI's form as a request of the Anthropic messages API, and what of it that API can't be asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vllm_gate.server.fields import mapping, sequence, text

_PASSED_ON = ("temperature", "top_p", "top_k", "stop_sequences", "thinking")
_TRANSLATED = ("tools", "tool_choice", "parallel_tool_calls", "stop")
_SWITCHED_OFF = {"presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1, "min_p": 0, "seed": None}
"""OpenAI's sampling fields with the value at which they do nothing: left out without a word."""


def request_body(
    model: str, messages: Sequence[Mapping[str, object]], max_tokens: int, extra: Mapping[str, object]
) -> dict[str, Any]:
    """System text apart, tool calls and their results as content blocks, tools and tool choice renamed."""
    system = "\n".join(_plain_text(message.get("content")) for message in messages if _is_system(message))
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens,
        "messages": _joined(_message(message) for message in messages if not _is_system(message)),
        "temperature": 0,
        **{key: extra[key] for key in _PASSED_ON if key in extra},
    }
    if system:
        body["system"] = system
    if stop := extra.get("stop"):
        body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if tools := _items(extra.get("tools")):
        body["tools"] = [_tool(mapping(mapping(tool).get("function"))) for tool in tools]
        if choice := _tool_choice(extra.get("tool_choice"), extra.get("parallel_tool_calls")):
            body["tool_choice"] = choice
    return body


def left_out(extra: Mapping[str, object]) -> tuple[str, ...]:
    """The fields of `extra` that this API has no word for and that would have had an effect."""
    known = {*_PASSED_ON, *_TRANSLATED}
    return tuple(key for key, value in extra.items() if key not in known and value != _SWITCHED_OFF.get(key, ...))


def _is_system(message: Mapping[str, object]) -> bool:
    return message.get("role") in ("system", "developer")


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else []


def _plain_text(content: object) -> str:
    """The text of a message's content, be it a string or a list of parts."""
    if isinstance(content, list | tuple):
        return "".join(text(mapping(part).get("text")) for part in content)
    return text(content)


def _message(message: Mapping[str, object]) -> dict[str, Any]:
    if message.get("role") == "tool":
        result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": message.get("content")}
        return {"role": "user", "content": [result]}
    calls = sequence(message.get("tool_calls"))
    if not calls:
        return {"role": message.get("role"), "content": message.get("content")}
    said = _plain_text(message.get("content"))
    return {
        "role": "assistant",
        "content": [*([{"type": "text", "text": said}] if said else []), *(_tool_use(mapping(call)) for call in calls)],
    }


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    function = mapping(call.get("function"))
    try:
        arguments = json.loads(text(function.get("arguments")) or "{}")
    except ValueError:
        arguments = {}
    return {"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": mapping(arguments)}


def _joined(messages: Any) -> list[dict[str, Any]]:
    """Results of parallel calls belong into one user message: neighbours that hold tool results are joined."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        if joined and _holds_results(joined[-1]) and _holds_results(message):
            joined[-1]["content"] += message["content"]
        else:
            joined.append(message)
    return joined


def _holds_results(message: Mapping[str, Any]) -> bool:
    return any(mapping(block).get("type") == "tool_result" for block in sequence(message.get("content")))


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": function.get("name"),
        "description": function.get("description", ""),
        "input_schema": function.get("parameters") or {"type": "object"},
    }


def _tool_choice(choice: object, parallel: object) -> dict[str, Any]:
    if isinstance(choice, dict):
        chosen = {"type": "tool", "name": mapping(choice.get("function")).get("name")}
    else:
        kinds = {"auto": "auto", "required": "any", "none": "none"}
        kind = kinds.get(str(choice), "auto" if parallel is False else "")
        chosen = {"type": kind} if kind else {}
    return {**chosen, "disable_parallel_tool_use": True} if chosen and parallel is False else chosen
