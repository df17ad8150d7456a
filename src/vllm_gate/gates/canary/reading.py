"""A user's request as a task, and a server's answer as what it said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from vllm_gate.errors import UnusableAnswer
from vllm_gate.judge.task_success import Said, Task
from vllm_gate.server.json_body import JsonBody
from vllm_gate.server.parsing import reply_from
from vllm_gate.server.reply import Reply
from vllm_gate.traffic.request import CHAT, TrafficRequest

_OURS = ("model", "n", "best_of", "user", "metadata", "store", "logprobs", "top_logprobs", "prompt_logprobs", "echo")
"""Not sent along: what is set anew, names a person, or asks for more than the one answer that is judged."""


def body_to_send(request: TrafficRequest, max_tokens: int) -> dict[str, object]:
    """The request's body as both sides get it: as its client wrote it, with the limit of tokens lowered if need be."""
    body = {key: value for key, value in request.body.items() if key not in _OURS}
    limits = [body.pop(key) for key in ("max_completion_tokens", "max_tokens") if key in body]
    given = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    return {**body, "max_tokens": min([*given, max_tokens])}


def task_of(request: TrafficRequest) -> Task:
    """What the request asks for. Fields of a wrong kind ask for nothing: the servers will say what they think of it."""
    body = request.body
    wants_json, schema = _wanted_json(body.get("response_format"))
    choice = body.get("tool_choice")
    tools = {} if choice == "none" else dict(_tools(body.get("tools")))
    return Task(
        prompt="\n".join(texts(request)),
        wants_json=wants_json,
        schema=schema,
        tools=tools,
        must_call=bool(tools) and (choice == "required" or isinstance(choice, Mapping)),
    )


def said_by(reply: Reply) -> Said:
    """What a server said, for judgement."""
    return Said(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=tuple((call.name, call.arguments) for call in reply.tool_calls),
        finish_reason=reply.finish_reason,
        stop_reason=reply.stop_reason,
        nonfinite=reply.nonfinite,
    )


def recorded_reply(request: TrafficRequest) -> Reply | None:
    """The answer that production gave; None where the log holds none that can be read."""
    if request.recorded is None:
        return None
    try:
        return reply_from(JsonBody(request.recorded, 0), elapsed_s=0.0)
    except UnusableAnswer:
        return None


def texts(request: TrafficRequest) -> Iterator[str]:
    """Every text of the request, in order."""
    if request.endpoint != CHAT:
        prompt = request.body.get("prompt")
        yield prompt if isinstance(prompt, str) else ""
        return
    for message in request.body.get("messages") or ():
        yield _text(message.get("content") if isinstance(message, Mapping) else message)


def last_text(request: TrafficRequest) -> str:
    """The last message's text, or the prompt."""
    return next(reversed(list(texts(request))), "")


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


def _wanted_json(wanted: object) -> tuple[bool, Mapping[str, Any] | None]:
    kind = wanted.get("type") if isinstance(wanted, Mapping) else None
    if kind == "json_object":
        return True, None
    if kind != "json_schema" or not isinstance(wanted, Mapping):
        return False, None
    given = wanted.get("json_schema")
    schema = given.get("schema") if isinstance(given, Mapping) else None
    return True, schema if isinstance(schema, Mapping) else None


def _tools(tools: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tool in tools if isinstance(tools, list) else ():
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            parameters = function.get("parameters")
            yield function["name"], parameters if isinstance(parameters, Mapping) else {}


def answer_line(request: TrafficRequest, reply: Reply) -> str:
    """What a validator's command reads: one line of JSON with the request and the answer."""
    answer = {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in reply.tool_calls],
        "finish_reason": reply.finish_reason,
    }
    return json.dumps({"endpoint": request.endpoint, "request": request.body, "answer": answer}, ensure_ascii=True)
