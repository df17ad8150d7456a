"""OpenTelemetry spans of the generative-AI conventions: OTLP JSON, or one span a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from vllm_gate.traffic.request import CHAT, Skipped, TrafficRequest, chat_or_skipped

_PARAMETERS = {
    "gen_ai.request.temperature": "temperature",
    "gen_ai.request.top_p": "top_p",
    "gen_ai.request.top_k": "top_k",
    "gen_ai.request.max_tokens": "max_tokens",
    "gen_ai.request.seed": "seed",
    "gen_ai.request.stop_sequences": "stop",
    "gen_ai.request.frequency_penalty": "frequency_penalty",
    "gen_ai.request.presence_penalty": "presence_penalty",
}


class OtelSpans:
    """`{"resourceSpans": […]}` as exported, or a span with `attributes` a line."""

    name = "OpenTelemetry"

    def recognises(self, row: Mapping[str, Any]) -> bool:
        """See `Format`."""
        return "resourceSpans" in row or (
            "attributes" in row and ("spanId" in row or "span_id" in row or "name" in row)
        )

    def read(self, row: Mapping[str, Any], line: int) -> list[TrafficRequest | Skipped]:
        """See `Format`."""
        return [_request(span, line) for span in _spans(row)] or [Skipped("no spans", line)]


def _spans(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "resourceSpans" not in row:
        yield row
        return
    for resource in row["resourceSpans"] or ():
        for scope in resource.get("scopeSpans") or ():
            yield from scope.get("spans") or ()


def _request(span: Mapping[str, Any], line: int) -> TrafficRequest | Skipped:
    given = _attributes(span.get("attributes"))
    if given.get("gen_ai.operation.name") != "chat":
        return Skipped("no chat span", line)
    asked = _json(given.get("gen_ai.input.messages"))
    if not isinstance(asked, list):
        return Skipped("a span without its messages: content capture was off", line)
    messages = [_message(message) for message in asked]
    instructions = _json(given.get("gen_ai.system_instructions"))
    if instructions:
        messages.insert(0, {"role": "system", "content": _text(instructions)})
    body: dict[str, Any] = {name: given[key] for key, name in _PARAMETERS.items() if key in given}
    tools = _json(given.get("gen_ai.tool.definitions"))
    if isinstance(tools, list) and tools:
        body["tools"] = [tool if "function" in tool else {"type": "function", "function": tool} for tool in tools]
    if given.get("gen_ai.output.type") == "json":
        body["response_format"] = {"type": "json_object"}
    request = TrafficRequest(
        id=str(span.get("spanId") or span.get("span_id") or line),
        endpoint=CHAT,
        body={**body, "messages": messages},
        recorded=_answer(given),
        session=str(given.get("gen_ai.conversation.id") or span.get("traceId") or span.get("trace_id") or ""),
        line=line,
    )
    return chat_or_skipped(request)


def _attributes(value: Any) -> Mapping[str, Any]:
    """A plain mapping, also of OTLP's list of typed pairs."""
    if isinstance(value, Mapping):
        return value
    return {pair["key"]: _value(pair.get("value") or {}) for pair in value or () if "key" in pair}


def _value(typed: Mapping[str, Any]) -> Any:
    if "intValue" in typed:
        return int(typed["intValue"])  # OTLP writes 64-bit integers as text
    if "arrayValue" in typed:
        return [_value(item) for item in typed["arrayValue"].get("values") or ()]
    if "kvlistValue" in typed:
        return {pair["key"]: _value(pair.get("value") or {}) for pair in typed["kvlistValue"].get("values") or ()}
    return next((typed[key] for key in ("stringValue", "doubleValue", "boolValue") if key in typed), None)


def _json(value: Any) -> Any:
    """Messages are structured, or the same as text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of the conventions, in the form of the chat API."""
    role, parts = str(message.get("role") or "user"), message.get("parts")
    if not isinstance(parts, list):
        return {"role": role, "content": message.get("content")}
    answered = next((part for part in parts if part.get("type") == "tool_call_response"), None)
    if answered is not None:
        content = answered.get("response", answered.get("result"))
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return {"role": "tool", "tool_call_id": str(answered.get("id") or ""), "content": text}
    calls = [_call(part) for part in parts if part.get("type") == "tool_call"]
    others = [part for part in parts if part.get("type") not in ("text", "tool_call", "reasoning")]
    content = [{"type": part.get("type")} for part in others] or _text(parts)
    return {"role": role, "content": content, **({"tool_calls": calls} if calls else {})}


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    arguments = part.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    function = {"name": str(part.get("name")), "arguments": text}
    return {"id": str(part.get("id") or ""), "type": "function", "function": function}


def _text(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    return "".join(str(part.get("content") or "") for part in parts if part.get("type") in (None, "text"))


def _answer(given: Mapping[str, Any]) -> dict[str, Any] | None:
    answers = _json(given.get("gen_ai.output.messages"))
    if not isinstance(answers, list) or not answers:
        return None
    reasons = given.get("gen_ai.response.finish_reasons") or [answers[0].get("finish_reason")]
    return {"choices": [{"index": 0, "message": _message(answers[0]), "finish_reason": reasons[0]}]}
