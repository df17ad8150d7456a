"""Answers as vLLM words them, field by field: whole bodies, stream chunks, errors."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vllm_gate.simulator.engine import Position
from vllm_gate.simulator.requests import BadRequest, GenerationRequest
from vllm_gate.simulator.tokenizer import tokenizer
from vllm_gate.simulator.tools import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a finished generation has to say."""

    text: str
    token_ids: Sequence[int]
    finish_reason: str
    stop_reason: str | None
    positions: Sequence[Position]
    prompt_positions: Sequence[Position | None] | None
    cached_tokens: int
    calls: Sequence[Call] = ()


class Wire:
    """The shapes of one server's answers."""

    def __init__(self, model: str, fingerprint: str, *, gateway: bool) -> None:
        self._model = model
        self._fingerprint = fingerprint
        self._gateway = gateway

    def whole(self, request: GenerationRequest, answer: Answer) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        choice: dict[str, Any] = {"index": 0, **self._content(request, answer)}
        choice |= {"logprobs": self._logprobs(request, answer.positions, 0), "finish_reason": answer.finish_reason}
        body = self._head(request, "chat.completion" if request.chat else "text_completion")
        body |= {"choices": [choice], "usage": self.usage(request, len(answer.token_ids), answer.cached_tokens)}
        if self._gateway:
            return body
        ids = list(answer.token_ids) if request.token_ids else None
        choice |= {"stop_reason": answer.stop_reason, "token_ids": ids}
        known_of_the_prompt = {
            "prompt_logprobs": self._prompt_logprobs(answer.prompt_positions),
            "prompt_token_ids": list(request.prompt) if request.token_ids else None,
        }
        (body if request.chat else choice).update(known_of_the_prompt)
        return body | {"service_tier": None, "system_fingerprint": self._fingerprint, "kv_transfer_params": None}

    def opening(self, request: GenerationRequest, identity: Mapping[str, Any]) -> dict[str, Any]:
        """The first chunk of a chat stream: the role, and the prompt's ids."""
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        ids = list(request.prompt) if request.token_ids else None
        return {**identity, "choices": [choice], "prompt_token_ids": ids, "prompt_text": None}

    def chunk(
        self,
        request: GenerationRequest,
        identity: Mapping[str, Any],
        *,
        text: str,
        tokens: Sequence[int],
        positions: Sequence[Position],
        finish_reason: str | None,
        offset: int,
        calls: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, Any]:
        """One piece of a stream. `offset` is where its text starts."""
        choice: dict[str, Any] = {"index": 0}
        if request.chat:
            spoken = {"content": text} if text else {}
            choice["delta"] = {"content": None, "tool_calls": list(calls)} if calls else spoken
        else:
            choice["text"] = text
        choice |= {"logprobs": self._logprobs(request, positions, offset), "finish_reason": finish_reason}
        if not self._gateway:
            choice["token_ids"] = list(tokens) if request.token_ids else None
            if not request.chat:
                first = offset == 0 and request.token_ids
                choice["prompt_token_ids"] = list(request.prompt) if first else None
            if finish_reason or not request.chat:
                choice["stop_reason"] = None
        return {**identity, "choices": [choice]}

    def signed(self, chunk: Mapping[str, Any]) -> dict[str, Any]:
        """A stream's last chunk, which alone carries the server's fingerprint."""
        return {**chunk} if self._gateway else {**chunk, "system_fingerprint": self._fingerprint}

    def identity(self, request: GenerationRequest) -> dict[str, Any]:
        """What every chunk of one stream begins with."""
        return self._head(request, "chat.completion.chunk" if request.chat else "text_completion")

    def usage(self, request: GenerationRequest, completion: int, cached: int) -> dict[str, Any]:
        """Token counts."""
        counts: dict[str, Any] = {
            "prompt_tokens": len(request.prompt),
            "total_tokens": len(request.prompt) + completion,
            "completion_tokens": completion,
        }
        return counts if self._gateway else counts | {"prompt_tokens_details": {"cached_tokens": cached}}

    def _head(self, request: GenerationRequest, kind: str) -> dict[str, Any]:
        prefix = "chatcmpl" if request.chat else "cmpl"
        number = secrets.token_hex(8)
        return {"id": f"{prefix}-{number}", "object": kind, "created": int(time.time()), "model": self._model}

    def _content(self, request: GenerationRequest, answer: Answer) -> dict[str, Any]:
        if not request.chat:
            return {"text": answer.text}
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or (None if answer.calls else "")}
        if not self._gateway:
            message |= {"refusal": None, "annotations": None, "audio": None, "function_call": None, "reasoning": None}
        if answer.calls:
            message["tool_calls"] = [
                {"id": call_id(), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in answer.calls
            ]
        return {"message": message}

    def _logprobs(
        self, request: GenerationRequest, positions: Sequence[Position], offset: int
    ) -> dict[str, Any] | None:
        if request.logprobs is None or self._gateway or not positions:
            return None
        if request.chat:
            return {"content": [_chat_entry(position, request.tokens_as_ids) for position in positions]}
        offsets = []
        for position in positions:
            offsets.append(offset)
            offset += len(tokenizer().decode([position.token]))
        return {
            "text_offset": offsets,
            "token_logprobs": [position.logprob for position in positions],
            "tokens": [_name(position.token, request.tokens_as_ids) for position in positions],
            "top_logprobs": [
                {_name(token, request.tokens_as_ids): logprob for token, logprob in _with_own(position)}
                for position in positions
            ],
        }

    def _prompt_logprobs(self, positions: Sequence[Position | None] | None) -> list[dict[str, Any] | None] | None:
        if positions is None or self._gateway:
            return None
        return [position and _prompt_entry(position) for position in positions]  # type: ignore[misc]


def error_body(error: BadRequest) -> dict[str, Any]:
    """An error, in the shape of vLLM since 0.10."""
    return {"error": {"message": error.message, "type": error.kind, "param": error.param, "code": error.status}}


def call_id() -> str:
    """A fresh id of a tool call."""
    return f"chatcmpl-tool-{secrets.token_hex(8)}"


def _with_own(position: Position) -> list[tuple[int, float]]:
    """The top tokens, and the chosen one after them where it is none of them."""
    known = {token for token, _ in position.top}
    return [*position.top, *([] if position.token in known else [(position.token, position.logprob)])]


def _chat_entry(position: Position, as_ids: bool) -> dict[str, Any]:
    def entry(token: int, logprob: float) -> dict[str, Any]:
        name = _name(token, as_ids)
        return {"token": name, "logprob": logprob, "bytes": list(tokenizer().token_bytes(token, skip_special=False))}

    top = [entry(token, logprob) for token, logprob in position.top]
    return entry(position.token, position.logprob) | {"top_logprobs": top}


def _prompt_entry(position: Position) -> dict[str, Any]:
    """The prompt's own token comes first, whatever its rank."""
    ranked = {position.token: (position.logprob, position.rank)}
    for rank, (token, logprob) in enumerate(position.top, start=1):
        ranked.setdefault(token, (logprob, rank))
    return {
        str(token): {"logprob": logprob, "rank": rank, "decoded_token": _name(token, False)}
        for token, (logprob, rank) in ranked.items()
    }


def _name(token: int, as_id: bool) -> str:
    return f"token_id:{token}" if as_id else tokenizer().decode([token], skip_special=False)
