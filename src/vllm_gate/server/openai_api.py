"""A service that speaks the OpenAI API, with vLLM's additions where it has them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vllm_gate.errors import NoAnswer
from vllm_gate.server import parsing
from vllm_gate.server.failures import CLOSED, HINTS
from vllm_gate.server.fields import count, mapping, sequence, text
from vllm_gate.server.interface import ModelCard
from vllm_gate.server.json_body import JsonBody, parse_object
from vllm_gate.server.reply import Answer, Refusal, Reply
from vllm_gate.server.roots import api_roots
from vllm_gate.server.service import MODELS_TIMEOUT_S, HttpService, listed_models, refuse_other_than_stream
from vllm_gate.server.transport import EventStream, Transport

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
_CONTENT = ("content", "reasoning", "reasoning_content", "tool_calls")
_UNKNOWN_FIELD = re.compile(
    r"(un(known|recogni[sz]ed|supported|expected|permitted)|extra (inputs|fields)|not (permitted|supported|allowed))",
    re.IGNORECASE,
)


class OpenAIService(HttpService):
    """See `Service`."""

    def __init__(self, transport: Transport, *, name: str, base_url: str, model: str) -> None:
        super().__init__(transport, name=name, base_url=base_url, model=model)
        self._roots = api_roots(base_url)
        self._takes_vllm_fields: dict[str, bool] = {}
        """By path, once a generation there was answered."""
        self._lock = threading.Lock()

    def models(self) -> tuple[ModelCard, ...]:
        """See `Service`."""
        roots = self._roots
        for root in roots:
            answer = self._transport.get(f"{root}/models", timeout_s=MODELS_TIMEOUT_S)
            if answer.status == 404 and root != roots[-1]:
                continue
            entries = listed_models(answer, f"{self.name}: {root}/models")
            self._settle(root)
            return tuple(_card(entry) for entry in entries)
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

    def send(self, endpoint: str, body: Mapping[str, object]) -> Answer:
        """See `Service`."""
        own: dict[str, object] = {**body, "model": self.model}
        if own.get("stream"):
            own["stream_options"] = {"include_usage": True}
        return self._at_root(endpoint.removeprefix("/v1/"), own)

    def _generate(
        self, path: str, what: Mapping[str, object], max_tokens: int, stream: bool, extra: Mapping[str, object]
    ) -> Answer:
        plain: dict[str, object] = {"model": self.model, **what, "max_tokens": max_tokens, **_SAMPLING, **extra}
        if stream:
            plain |= {"stream": True, "stream_options": {"include_usage": True}}
        if self._takes_vllm_fields.get(path) is False:
            return self._at_root(path, _without_vllm_fields(plain))
        answer = self._at_root(path, {**_VLLM_ONLY, **plain})
        if isinstance(answer, Reply):
            self._takes_vllm_fields[path] = True
        # Once taken, always taken: from then on a 400 is the server's fault and no matter of fields.
        if isinstance(answer, Reply) or self._takes_vllm_fields.get(path) or not _refuses_fields(answer):
            return answer
        again = self._at_root(path, _without_vllm_fields(plain))
        if isinstance(again, Refusal):
            return answer
        self._takes_vllm_fields[path] = False
        self._note(f"{self.name}: refuses vLLM's request fields, so token ids can't be asked for ({answer.message})")
        return again

    def _at_root(self, path: str, body: Mapping[str, object]) -> Answer:
        """The answer of the first root that knows the path."""
        unknown: list[Refusal] = []
        for root in self._roots:
            url = f"{root}/{path}"
            answer = self._streamed(url, body) if body.get("stream") else self._whole(url, body)
            if isinstance(answer, Reply):
                self._settle(root)
                return answer
            if answer.status != 404:
                return answer
            unknown.append(answer)
        # A 404 may be about the model: such a one says more than one about the path.
        return next((refusal for refusal in unknown if self.model in refusal.message), unknown[-1])

    def _whole(self, url: str, body: Mapping[str, object]) -> Answer:
        answer = self._transport.post(url, body)
        if answer.status >= 300:
            return parsing.refusal_from(answer.status, answer.body, elapsed_s=answer.elapsed_s)
        return parsing.reply_from(parse_object(answer.body, f"{self.name}: {url}"), elapsed_s=answer.elapsed_s)

    def _streamed(self, url: str, body: Mapping[str, object]) -> Answer:
        with self._transport.stream(url, body) as stream:
            if stream.status >= 300:
                answer = stream.whole()
                return parsing.refusal_from(answer.status, answer.body, elapsed_s=answer.elapsed_s)
            return read_stream(stream, f"{self.name}: {url}", self._note)

    def _settle(self, root: str) -> None:
        with self._lock:
            first, self._roots = self._roots[0], (root,)
        if root != first:
            self._note(f"{self.name}: {first} answers 404, so {root} is used")


def read_stream(stream: EventStream, what: str, note: Callable[[str], None]) -> Answer:
    """A stream's chunks as one `Reply`; an error event makes it a `Refusal`.

    Raises NoAnswer when it breaks off and UnusableAnswer when it is no stream.
    """
    refuse_other_than_stream(stream, what)
    chunks: list[Mapping[str, Any]] = []
    nonfinite, first_token_s, last_s, ended = 0, None, 0.0, False
    for last_s, data in stream.events():
        if data == b"[DONE]":
            ended = True
            break
        chunk = parse_object(data, f"{what}: a chunk")
        nonfinite += chunk.nonfinite
        if parsing.is_error(chunk.value):
            return parsing.refusal_from(_code(chunk.value), data, elapsed_s=last_s, in_stream=True)
        if first_token_s is None and _has_content(chunk.value):
            first_token_s = last_s
        chunks.append(chunk.value)
    whole = parsing.merged(chunks)
    if not ended and not any(choice.get("finish_reason") for choice in whole.get("choices", [])):
        raise NoAnswer(
            f"{what}: the stream broke off after {len(chunks)} chunks, without a finish reason or [DONE]",
            reason=CLOSED,
            hint=HINTS[CLOSED],
        )
    if not ended:
        note(f"{what}: the stream ends without [DONE]")
    return parsing.reply_from(JsonBody(whole, nonfinite), elapsed_s=last_s, streamed=True, first_token_s=first_token_s)


def _has_content(chunk: Mapping[str, Any]) -> bool:
    """Whether a generated token shows: as text, or as an id where its text is empty."""
    return any(
        choice.get("text") or choice.get("token_ids") or any(map(mapping(choice.get("delta")).get, _CONTENT))
        for choice in map(mapping, sequence(chunk.get("choices")))
    )


def _code(chunk: Mapping[str, Any]) -> int:
    """The status an error event tells, in the event or in its `error`; 500 where it tells none."""
    error = chunk.get("error")
    code = error.get("code") if isinstance(error, dict) else chunk.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def _without_vllm_fields(body: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in body.items() if key not in _VLLM_ONLY and key != "cache_salt"}


def _refuses_fields(refusal: Refusal) -> bool:
    """Whether a 400 or 422 is about a field of ours that only vLLM knows; never one about NaN."""
    if refusal.status not in (400, 422) or refusal.says_nonfinite:
        return False
    named = any(field in refusal.body for field in (*_VLLM_ONLY, "cache_salt"))
    return named or bool(_UNKNOWN_FIELD.search(refusal.message))


def _card(entry: Mapping[str, Any]) -> ModelCard:
    return ModelCard(
        id=text(entry.get("id")), max_model_len=count(entry.get("max_model_len")), root=text(entry.get("root"))
    )
