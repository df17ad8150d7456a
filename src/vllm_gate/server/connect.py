"""A client for a configured service."""

from __future__ import annotations

from vllm_gate.core.secret import Secret
from vllm_gate.errors import ConfigError
from vllm_gate.server.anthropic_api import API_VERSION, AnthropicService
from vllm_gate.server.interface import ConnectedService
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
) -> ConnectedService:
    """A client that speaks `api` ("openai" or "anthropic"). Nothing is sent yet.

    The key goes to `base_url`'s host alone, and only if `allowed_hosts` (None: any) holds it. Raises ConfigError for
    a key that no HTTP header can carry.
    """
    transport = HttpTransport(
        service=name,
        headers=_headers(api, _sendable(api_key, name)),
        secret=api_key,
        timeout_s=timeout_s,
        allowed_hosts=allowed_hosts,
    )
    kind = AnthropicService if api == "anthropic" else OpenAIService
    return kind(transport, name=name, base_url=base_url.rstrip("/"), model=model)


def _headers(api: str, key: str) -> dict[str, str]:
    if api == "anthropic":
        return {"anthropic-version": API_VERSION} | ({"x-api-key": key} if key else {})
    return {"Authorization": f"Bearer {key}"} if key else {}


def _sendable(api_key: Secret | None, name: str) -> str:
    """The key without the line end that pasting leaves behind."""
    key = api_key.reveal().strip() if api_key else ""
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"{name}: the key holds characters that no HTTP header can carry (a line break, or no ASCII)",
            hint="set the variable that api_key_env names to the key alone",
        )
    return key
