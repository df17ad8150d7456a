"""Where the two sets of endpoints live: the OpenAI paths under `base_url`, vLLM's own at the server's root."""

from __future__ import annotations


def api_roots(base_url: str) -> tuple[str, ...]:
    """Where the OpenAI paths may live, in the order to try: `base_url` as it stands, then with `/v1`."""
    plain = base_url.rstrip("/")
    return (plain,) if plain.endswith("/v1") else (plain, f"{plain}/v1")


def server_root(base_url: str) -> str:
    """Where `/health`, `/version`, `/metrics` and `/tokenize` live: `base_url` without a trailing `/v1`."""
    return base_url.rstrip("/").removesuffix("/v1")
