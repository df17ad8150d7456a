"""A service that speaks the OpenAI API, with vLLM's additions where it has them."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from vllm_gate.errors import NoAnswer, UnusableAnswer
from vllm_gate.server import parsing
from vllm_gate.server.interface import ModelCard
from vllm_gate.server.json_body import JsonBody, parse_object
from vllm_gate.server.reply import Answer, Refusal
from vllm_gate.server.roots import api_roots, server_root
from vllm_gate.server.transport import RESET, EventStream, Transport
from vllm_gate.server.vllm_endpoints import VllmEndpoints

_SAMPLING = {"temperature": 0, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}
"""Every default is set: a model's generation_config.json would otherwise choose, and differ between two servers."""
_VLLM_ONLY: Mapping[str, object] = {
    "top_k": -1,
    "min_p": 0,
    "repetition_penalty": 1,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
}
"""Sent to a vLLM. A gateway that refuses unknown fields is asked without them, and that is noted."""
_UNKNOWN_FIELD = re.compile(
    r"(un(known|recogni[sz]ed|supported|expected|permitted)|extra (inputs|fields)|not (permitted|supported|allowed))",
    re.IGNORECASE,
)


class OpenAIService(VllmEndpoints):
    """See `Service`. `notes` says what had to be adapted to this server."""

    def __init__(self, transport: Transport, *, name: str, base_url: str, model: str) -> None:
        super().__init__(transport, server_root(base_url), model)
        self.name = name
        self.model = model
        self.base_url = base_url
        self._roots = api_roots(base_url)
        self._plain = False
        self._lock = threading.Lock()
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """What had to be adapted to this server, in sentences."""
        retries = getattr(self._transport, "retries", 0)
        resent = [f"{self.name}: {retries} requests were sent again (refused, or asked to wait)"] if retries else []
        return (*self._notes, *resent)

    def models(self) -> tuple[ModelCard, ...]:
        """See `Service`."""
        for root in self._roots:
            answer = self._transport.get(f"{root}/models", timeout_s=15.0)
            if answer.status == 404 and root != self._roots[-1]:
                continue
            if answer.status != 200:
                refusal = parsing.refusal_from(answer.status, answer.body, elapsed_s=answer.elapsed_s)
                raise UnusableAnswer(
                    f"{self.name}: {root}/models answers HTTP {refusal.status}: {refusal.message}",
                    hint=_key_hint(refusal.status),
                )
            self._settle(root)
            return tuple(_card(entry) for entry in _entries(parse_object(answer.body, f"{root}/models")))
        raise AssertionError("the last root returns or raises")

    def chat(
        self, messages: Sequence[Mapping[str, object]], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        """See `Service`."""
        return self._generate("chat/completions", {"messages": list(messages)}, max_tokens, stream, extra)

    def complete(
        self, prompt: str | Sequence[int], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        """See `Service`."""
        asked = prompt if isinstance(prompt, str) else list(prompt)
        return self._generate("completions", {"prompt": asked}, max_tokens, stream, extra)

    def _generate(
        self, path: str, what: Mapping[str, object], max_tokens: int, stream: bool, extra: Mapping[str, object]
    ) -> Answer:
        plain: dict[str, object] = {"model": self.model, **what, "max_tokens": max_tokens, **_SAMPLING, **extra}
        if stream:
            plain |= {"stream": True, "stream_options": {"include_usage": True}}
        if self._plain:
            return self._at_root(path, _without_vllm_fields(plain))
        answer = self._at_root(path, {**_VLLM_ONLY, **plain})
        if not (isinstance(answer, Refusal) and _refuses_fields(answer)):
            return answer
        again = self._at_root(path, _without_vllm_fields(plain))
        if isinstance(again, Refusal):
            return answer
        with self._lock:
            self._plain = True
            self._note(
                f"{self.name}: refuses vLLM's request fields, so token ids can't be asked for ({answer.message})"
            )
        return again

    def _at_root(self, path: str, body: Mapping[str, object]) -> Answer:
        """The answer of the first root that knows the path."""
        for root in self._roots:
            url = f"{root}/{path}"
            answer = self._streamed(url, body) if body.get("stream") else self._whole(url, body)
            # A 404 may also mean an unknown model, which the next root then says again.
            if not (isinstance(answer, Refusal) and answer.status == 404 and root != self._roots[-1]):
                if not isinstance(answer, Refusal):
                    self._settle(root)
                return answer
        raise AssertionError("the last root returns")

    def _whole(self, url: str, body: Mapping[str, object]) -> Answer:
        answer = self._transport.post(url, body)
        if answer.status >= 300:
            return parsing.refusal_from(answer.status, answer.body, elapsed_s=answer.elapsed_s)
        return parsing.reply_from(parse_object(answer.body, f"{self.name}: {url}"), elapsed_s=answer.elapsed_s)

    def _streamed(self, url: str, body: Mapping[str, object]) -> Answer:
        with self._transport.stream(url, body) as stream:
            if stream.status >= 300:
                return parsing.refusal_from(stream.status, stream.rest(), elapsed_s=0.0)
            return read_stream(stream, f"{self.name}: {url}")

    def _settle(self, root: str) -> None:
        with self._lock:
            if len(self._roots) > 1:
                if root != self._roots[0]:
                    self._note(f"{self.name}: {self._roots[0]} answers 404, so {root} is used")
                self._roots = (root,)

    def _note(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)


def read_stream(stream: EventStream, what: str) -> Answer:
    """A stream's chunks as one `Reply`; an error event makes it a `Refusal`. Raises NoAnswer when it breaks off."""
    chunks: list[Mapping[str, Any]] = []
    nonfinite, first_token_s, last_s, ended = 0, None, 0.0, False
    for last_s, data in stream.events():
        if data == b"[DONE]":
            ended = True
            break
        chunk = parse_object(data, f"{what}: a chunk")
        nonfinite += chunk.nonfinite
        if message := parsing.error_in(chunk.value):
            return parsing.refusal_from(_code(chunk.value), message.encode(), elapsed_s=last_s, in_stream=True)
        if first_token_s is None and _has_content(chunk.value):
            first_token_s = last_s
        chunks.append(chunk.value)
    whole = parsing.merged(chunks)
    if not ended and not any(choice.get("finish_reason") for choice in whole.get("choices", [])):
        raise NoAnswer(
            f"{what}: the stream broke off after {len(chunks)} chunks, without a finish reason or [DONE]", reason=RESET
        )
    return parsing.reply_from(JsonBody(whole, nonfinite), elapsed_s=last_s, streamed=True, first_token_s=first_token_s)


def _has_content(chunk: Mapping[str, Any]) -> bool:
    for choice in chunk.get("choices") or []:
        delta = choice.get("delta") or {}
        if choice.get("text") or any(
            delta.get(key) for key in ("content", "reasoning", "reasoning_content", "tool_calls")
        ):
            return True
    return False


def _code(chunk: Mapping[str, Any]) -> int:
    error = chunk.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else 500


def _without_vllm_fields(body: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in body.items() if key not in _VLLM_ONLY and key != "cache_salt"}


def _refuses_fields(refusal: Refusal) -> bool:
    """Whether a 400 or 422 is about a field of ours that only vLLM knows; never one about NaN."""
    if refusal.status not in (400, 422) or refusal.says_nonfinite:
        return False
    named = any(field in refusal.body for field in (*_VLLM_ONLY, "cache_salt"))
    return named or bool(_UNKNOWN_FIELD.search(refusal.message))


def _key_hint(status: int) -> str:
    return "the key is missing or wrong: see api_key_env of the service" if status in (401, 403) else ""


def _entries(body: JsonBody) -> Sequence[Mapping[str, Any]]:
    entries = body.value.get("data")
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _card(entry: Mapping[str, Any]) -> ModelCard:
    length = entry.get("max_model_len")
    return ModelCard(
        id=str(entry.get("id", "")),
        max_model_len=length if isinstance(length, int) else None,
        root=str(entry.get("root") or ""),
    )
