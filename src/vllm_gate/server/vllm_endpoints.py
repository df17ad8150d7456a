"""vLLM's own endpoints at the server's root. A service that has none (a gateway) answers None, not an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vllm_gate.errors import UnusableAnswer
from vllm_gate.server.fields import token_ids
from vllm_gate.server.json_body import parse_object
from vllm_gate.server.metrics import parse_metrics
from vllm_gate.server.transport import HttpAnswer, Transport

_ABSENT = (404, 405, 501)
_PROBE_TIMEOUT_S = 15.0


class VllmEndpoints:
    """`/health`, `/version`, `/tokenize`, `/detokenize`, `/metrics`, `/server_info` of one server."""

    def __init__(self, transport: Transport, root: str, model: str) -> None:
        self._transport = transport
        self._root = root
        self._model = model

    def health(self) -> bool | None:
        """See `Service`. Whatever is neither 200 nor a server's error (a login page, a 403) is no such endpoint."""
        answer = self._got("/health", once=True)
        if answer is None or 200 < answer.status < 500 or answer.status in _ABSENT:
            return None
        return answer.status == 200

    def version(self) -> str | None:
        """See `Service`."""
        found = self._object("/version")
        version = found.get("version") if found else None
        return version if isinstance(version, str) else None

    def server_info(self) -> Mapping[str, object] | None:
        """See `Service`."""
        return self._object("/server_info?config_format=json")

    def metrics(self) -> Mapping[str, float] | None:
        """See `Service`."""
        answer = self._got("/metrics")
        if answer is None or answer.status != 200:
            return None
        return parse_metrics(answer.body.decode("utf-8", errors="replace"))

    def tokenize(self, text: str, *, add_special_tokens: bool = False) -> tuple[int, ...] | None:
        """See `Service`."""
        return self._tokens({"prompt": text, "add_special_tokens": add_special_tokens})

    def tokenize_chat(self, messages: Sequence[Mapping[str, object]], **extra: object) -> tuple[int, ...] | None:
        """See `Service`."""
        return self._tokens({"messages": list(messages), **extra})

    def detokenize(self, tokens: Sequence[int]) -> str | None:
        """See `Service`."""
        body = self._posted("/detokenize", {"model": self._model, "tokens": list(tokens)})
        if body is None:
            return None
        text = body.get("prompt")
        if not isinstance(text, str):
            raise UnusableAnswer(f"{self._root}/detokenize answers without a text, only {sorted(body)[:8]}")
        return text

    def _tokens(self, fields: Mapping[str, object]) -> tuple[int, ...] | None:
        body = self._posted("/tokenize", {"model": self._model, **fields})
        if body is None:
            return None
        tokens = token_ids(body.get("tokens"))
        if tokens is None:
            raise UnusableAnswer(f"{self._root}/tokenize answers without a list of tokens, only {sorted(body)[:8]}")
        return tokens

    def _got(self, path: str, *, once: bool = False) -> HttpAnswer | None:
        """None for a redirect: a gateway that sends every unknown path to its web page."""
        try:
            return self._transport.get(f"{self._root}{path}", timeout_s=_PROBE_TIMEOUT_S, once=once)
        except UnusableAnswer:
            return None

    def _object(self, path: str) -> Mapping[str, object] | None:
        answer = self._got(path)
        if answer is None or answer.status != 200:
            return None
        try:
            return parse_object(answer.body, path).value
        except UnusableAnswer:  # a gateway's web page, answered for every path
            return None

    def _posted(self, path: str, fields: Mapping[str, object]) -> Mapping[str, object] | None:
        answer = self._transport.post(f"{self._root}{path}", fields)
        if answer.status in _ABSENT:
            return None
        if answer.status != 200:
            text = answer.body[:300].decode("utf-8", errors="replace")
            raise UnusableAnswer(f"{self._root}{path} answers HTTP {answer.status}: {text}")
        return parse_object(answer.body, path).value
