"""A client for a configured service."""

from __future__ import annotations

from vllm_gate.core.secret import Secret
from vllm_gate.server.anthropic_api import API_VERSION, AnthropicService
from vllm_gate.server.interface import Service
from vllm_gate.server.openai_api import OpenAIService
from vllm_gate.server.transport import HttpTransport


def connect(
    *,
    name: str,
    base_url: str,
    model: str,
    api: str,
    api_key: Secret | None,
    timeout_s: float,
    allowed_hosts: frozenset[str] | None = None,
) -> Service:
    """A client that speaks `api` ("openai" or "anthropic"). Nothing is sent yet.

    The key goes to `base_url`'s host alone, and only if `allowed_hosts` (None: any) holds it.
    """
    transport = HttpTransport(
        service=name,
        headers=_headers(api, api_key),
        secret=api_key,
        timeout_s=timeout_s,
        allowed_hosts=allowed_hosts,
    )
    kind = AnthropicService if api == "anthropic" else OpenAIService
    return kind(transport, name=name, base_url=base_url.rstrip("/"), model=model)


def _headers(api: str, api_key: Secret | None) -> dict[str, str]:
    if api == "anthropic":
        return {"anthropic-version": API_VERSION} | ({"x-api-key": api_key.reveal()} if api_key else {})
    return {"Authorization": f"Bearer {api_key.reveal()}"} if api_key else {}
