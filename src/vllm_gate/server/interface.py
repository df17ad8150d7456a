"""What a gate may ask of a service. One implementation per API dialect; tests may script one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vllm_gate.server.reply import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One entry of `/v1/models`."""

    id: str
    max_model_len: int | None = None
    root: str = ""


class Service(Protocol):
    """One endpoint under a name. Safe to call from several threads.

    Every method raises `NoAnswer` when no HTTP answer came and `UnusableAnswer` when the body is not what the API
    promises. `extra` holds request fields by their vLLM names (`logprobs`, `prompt_logprobs`, `cache_salt`,
    `tools`, `response_format`, …), sent as they are.
    """

    name: str
    model: str
    base_url: str

    def chat(
        self, messages: Sequence[Mapping[str, object]], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        """One chat completion. `temperature` defaults to 0 with every sampling default switched off."""
        ...

    def complete(
        self, prompt: str | Sequence[int], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        """One completion of a text or of token ids."""
        ...

    def send(self, endpoint: str, body: Mapping[str, object]) -> Answer:
        """A user's request as it was written, to `/v1/chat/completions` or `/v1/completions`.

        Only `model` is set anew, and a stream is asked for its usage: sampling stays what the user chose.
        """
        ...

    def models(self) -> tuple[ModelCard, ...]:
        """`/v1/models`; raises `UnusableAnswer` on an error status."""
        ...

    def health(self) -> bool | None:
        """`/health`: True, False, or None where the service has no such endpoint (a gateway)."""
        ...

    def version(self) -> str | None:
        """`/version`, or None where the service has no such endpoint."""
        ...

    def tokenize(self, text: str, *, add_special_tokens: bool = False) -> tuple[int, ...] | None:
        """Token ids of a text, or None where the service has no `/tokenize`."""
        ...

    def tokenize_chat(self, messages: Sequence[Mapping[str, object]], **extra: object) -> tuple[int, ...] | None:
        """Token ids of a rendered chat prompt (template applied), or None where there is no `/tokenize`."""
        ...

    def detokenize(self, tokens: Sequence[int]) -> str | None:
        """The text of token ids, or None where the service has no `/detokenize`."""
        ...

    def metrics(self) -> Mapping[str, float] | None:
        """Prometheus counters and gauges summed over labels, by name; None where there is no `/metrics`."""
        ...

    def server_info(self) -> Mapping[str, object] | None:
        """`/server_info?config_format=json` (a vLLM in dev mode), or None."""
        ...


class ConnectedService(Service, Protocol):
    """A service that was really asked, over HTTP."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What had to be adapted to this server, and how often a request was sent again: sentences, without keys."""
        ...
