"""A generation request as the engine sees it, read from a body the way vLLM reads it: unknown fields are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm_gate.simulator.settings import SimulatorSettings


class BadRequest(Exception):
    """An error answer: status, message, the type and parameter it names."""

    def __init__(self, status: int, message: str, *, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param


NONFINITE = BadRequest(400, "Out of range float values are not JSON compliant")
"""NaN or infinity in a whole body, which JSON can't carry: vLLM 0.25 to 0.32 answer 400, older ones 500."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One request. `logprobs` and `prompt_logprobs` are the k of top-k, None where not asked for."""

    prompt: tuple[int, ...]
    max_tokens: int
    chat: bool
    body: Mapping[str, Any]
    temperature: float = 0.0
    seed: int | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    cache_salt: str = ""
    stream: bool = False
    include_usage: bool = False
    token_ids: bool = False
    tokens_as_ids: bool = False


def generation_request(
    body: Mapping[str, Any], prompt: list[int], *, chat: bool, settings: SimulatorSettings
) -> GenerationRequest:
    """Check and read a body. Raises BadRequest in vLLM's words."""
    room = settings.max_model_len - len(prompt)
    if room < 1:
        raise BadRequest(
            400,
            f"This model's maximum context length is {settings.max_model_len} tokens. However, your prompt contains "
            f"{len(prompt)} input tokens, which exceeds this limit even without any output tokens. Please reduce the "
            f"length of the input prompt. (parameter=input_tokens, value={len(prompt)})",
            param="input_tokens",
        )
    asked = body.get("max_completion_tokens") or body.get("max_tokens")
    max_tokens = (room if chat else 16) if asked is None else asked
    if max_tokens < 1:
        raise _parameter("max_tokens must be at least 1, got {}.", "max_tokens", max_tokens)
    if max_tokens > settings.max_model_len:
        raise _parameter(
            f"max_tokens={{}} cannot be greater than max_model_len={settings.max_model_len}. Please request fewer "
            "output tokens.",
            "max_tokens",
            max_tokens,
        )
    temperature = float(body.get("temperature", 1.0) or 0.0)
    if temperature < 0:
        raise _parameter("temperature must be non-negative, got {}.", "temperature", temperature)
    logprobs = _logprobs(body, chat)
    for kind, name, wanted in (
        ("sample", "logprobs", logprobs),
        ("prompt", "prompt_logprobs", body.get("prompt_logprobs")),
    ):
        if wanted is not None and wanted > settings.max_logprobs:
            limit = f"Requested {kind} logprobs of {{}}, which is greater than max allowed: {settings.max_logprobs}"
            raise _parameter(limit, name, wanted)
    if body.get("stream") and body.get("prompt_logprobs") is not None:
        message = "`prompt_logprobs` are not available when `stream=True`. (parameter=prompt_logprobs)"
        raise BadRequest(400, message, param="prompt_logprobs")
    stop = body.get("stop") or ()
    return GenerationRequest(
        prompt=tuple(prompt),
        max_tokens=min(max_tokens, room),
        chat=chat,
        body=body,
        temperature=temperature,
        seed=body.get("seed"),
        logprobs=logprobs,
        prompt_logprobs=body.get("prompt_logprobs"),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        ignore_eos=bool(body.get("ignore_eos")),
        cache_salt=str(body.get("cache_salt") or ""),
        stream=bool(body.get("stream")),
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        token_ids=bool(body.get("return_token_ids")),
        tokens_as_ids=bool(body.get("return_tokens_as_token_ids")),
    )


def _logprobs(body: Mapping[str, Any], chat: bool) -> int | None:
    if chat:
        return int(body.get("top_logprobs") or 0) if body.get("logprobs") else None
    value = body.get("logprobs")
    return None if value is None else int(value)


def _parameter(message: str, name: str, value: object) -> BadRequest:
    return BadRequest(400, f"{message.format(value)} (parameter={name}, value={value})", param=name)
