"""A service that speaks Anthropic messages. It knows no logprobs, no token ids and no text completions.

Wire format: the Anthropic Messages API (version 2023-06-01), which vLLM serves at `/v1/messages` as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vllm_gate.errors import NoAnswer, UnusableAnswer
from vllm_gate.server.anthropic_requests import left_out, request_body
from vllm_gate.server.failures import CLOSED, HINTS
from vllm_gate.server.fields import count, mapping, sequence, text
from vllm_gate.server.interface import ModelCard
from vllm_gate.server.json_body import JsonBody, parse_object
from vllm_gate.server.parsing import refusal_from
from vllm_gate.server.reply import Answer, Refusal, Reply, ToolCall, Usage
from vllm_gate.server.service import MODELS_TIMEOUT_S, HttpService, listed_models, refuse_other_than_stream
from vllm_gate.server.transport import EventStream, Transport

API_VERSION = "2023-06-01"
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_PIECES = ("text", "thinking", "partial_json")
"""What a delta adds to its content block."""


class AnthropicService(HttpService):
    """See `Service`. Request fields that the API has no word for are left out, and that is noted."""

    def __init__(self, transport: Transport, *, name: str, base_url: str, model: str) -> None:
        super().__init__(transport, name=name, base_url=base_url, model=model)
        self._api = f"{self._root}/v1"

    def chat(
        self, messages: Sequence[Mapping[str, object]], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        """See `Service`."""
        for key in left_out(extra):
            self._note(f"{self.name}: the Anthropic messages API has no {key}, so it is left out")
        url = f"{self._api}/messages"
        body = request_body(self.model, messages, max_tokens, extra)
        if stream:
            with self._transport.stream(url, {**body, "stream": True}) as events:
                if events.status >= 300:
                    answer = events.whole()
                    return refusal_from(answer.status, answer.body, elapsed_s=answer.elapsed_s)
                return read_stream(events, f"{self.name}: {url}")
        answer = self._transport.post(url, body)
        if answer.status >= 300:
            return refusal_from(answer.status, answer.body, elapsed_s=answer.elapsed_s)
        return reply_from(parse_object(answer.body, f"{self.name}: {url}"), elapsed_s=answer.elapsed_s)

    def complete(
        self, prompt: str | Sequence[int], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        """Always a Refusal: this API has no completions of texts or token ids."""
        return Refusal(status=404, message="the Anthropic messages API has no text completions")

    def send(self, endpoint: str, body: Mapping[str, object]) -> Answer:
        """See `Service`. A request that leaves the temperature open gets both APIs' default of 1."""
        extra = {key: value for key, value in body.items() if key not in ("model", "messages", "max_tokens", "stream")}
        messages, limit = sequence(body.get("messages")), count(body.get("max_tokens"))
        if not endpoint.endswith("/chat/completions") or limit is None:
            return self.complete("", max_tokens=1)
        return self.chat(messages, max_tokens=limit, stream=bool(body.get("stream")), **{"temperature": 1, **extra})

    def models(self) -> tuple[ModelCard, ...]:
        """See `Service`."""
        url = f"{self._api}/models"
        answer = self._transport.get(url, timeout_s=MODELS_TIMEOUT_S)
        return tuple(ModelCard(id=text(entry.get("id"))) for entry in listed_models(answer, f"{self.name}: {url}"))


def reply_from(
    body: JsonBody, *, elapsed_s: float, streamed: bool = False, first_token_s: float | None = None
) -> Reply:
    """A `Reply` from a whole message. Raises UnusableAnswer without content blocks."""
    raw = body.value
    if not isinstance(raw.get("content"), list):
        raise UnusableAnswer(f"the answer holds no content blocks, only {sorted(raw)[:8]}")
    blocks = [mapping(block) for block in sequence(raw["content"])]
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    reason = text(raw.get("stop_reason"))
    return Reply(
        text="".join(text(block.get("text")) for block in blocks if block.get("type") == "text"),
        reasoning="".join(text(block.get("thinking")) for block in blocks if block.get("type") == "thinking"),
        tool_calls=tuple(
            ToolCall(id=text(call.get("id")), name=text(call.get("name")), arguments=_arguments(call), index=index)
            for index, call in enumerate(calls)
        ),
        finish_reason=_FINISH_REASONS.get(reason, reason),
        stop_reason=text(raw.get("stop_sequence")),
        usage=_usage(mapping(raw.get("usage"))),
        model=text(raw.get("model")),
        nonfinite=body.nonfinite,
        elapsed_s=elapsed_s,
        first_token_s=first_token_s,
        streamed=streamed,
        raw=raw,
    )


def read_stream(stream: EventStream, what: str) -> Answer:
    """A stream's events as one `Reply`; an error event makes it a `Refusal`.

    Raises NoAnswer when it breaks off and UnusableAnswer when it is no stream.
    """
    refuse_other_than_stream(stream, what)
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    nonfinite, first_token_s, last_s, ended = 0, None, 0.0, False
    for last_s, data in stream.events():
        event = parse_object(data, f"{what}: an event")
        nonfinite += event.nonfinite
        kind = event.value.get("type")
        if kind == "error":
            return refusal_from(500, data, elapsed_s=last_s, in_stream=True)
        if kind == "content_block_delta" and first_token_s is None:
            first_token_s = last_s
        _add(message, blocks, event.value)
        if ended := kind == "message_stop":
            break
    if not ended:
        raise NoAnswer(f"{what}: the stream broke off before message_stop", reason=CLOSED, hint=HINTS[CLOSED])
    message["content"] = [blocks[index] for index in sorted(blocks)]
    return reply_from(JsonBody(message, nonfinite), elapsed_s=last_s, streamed=True, first_token_s=first_token_s)


def _add(message: dict[str, Any], blocks: dict[int, dict[str, Any]], event: Mapping[str, Any]) -> None:
    kind, index = event.get("type"), count(event.get("index")) or 0
    if kind == "message_start":
        message |= mapping(event.get("message"))
    elif kind == "content_block_start":
        blocks[index] = dict(mapping(event.get("content_block")))
    elif kind == "content_block_delta":
        block, delta = blocks.setdefault(index, {}), mapping(event.get("delta"))
        for key in _PIECES:
            if key in delta:
                block[key] = text(block.get(key)) + text(delta[key])
    elif kind == "message_delta":
        message |= mapping(event.get("delta"))
        message["usage"] = {**mapping(message.get("usage")), **mapping(event.get("usage"))}


def _arguments(call: Mapping[str, Any]) -> str:
    """The arguments as they came: a stream's text is not parsed, so that broken JSON stays broken."""
    pieces = text(call.get("partial_json"))
    return pieces or json.dumps(call.get("input"), ensure_ascii=False)


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        prompt_tokens=count(usage.get("input_tokens")),
        completion_tokens=count(usage.get("output_tokens")),
        cached_tokens=count(usage.get("cache_read_input_tokens")),
    )
