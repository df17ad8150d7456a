"""What the clients of both dialects have in common: vLLM's own endpoints, and notes of what had to be adapted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_gate.errors import UnusableAnswer
from vllm_gate.server.fields import mapping
from vllm_gate.server.json_body import parse_object
from vllm_gate.server.parsing import refusal_from
from vllm_gate.server.roots import server_root
from vllm_gate.server.transport import EventStream, HttpAnswer, Transport
from vllm_gate.server.vllm_endpoints import VllmEndpoints

MODELS_TIMEOUT_S = 15.0


class HttpService(VllmEndpoints):
    """See `ConnectedService`."""

    def __init__(self, transport: Transport, *, name: str, base_url: str, model: str) -> None:
        super().__init__(transport, server_root(base_url), model)
        self.name = name
        self.model = model
        self.base_url = base_url
        self._notes: dict[str, None] = {}  # an ordered set

    @property
    def notes(self) -> tuple[str, ...]:
        """See `ConnectedService`."""
        retries = self._transport.retries
        again = f"{self.name}: {retries} request{'s' * (retries != 1)} sent again (refused, or asked to wait)"
        return (*self._notes, again) if retries else tuple(self._notes)

    def _note(self, note: str) -> None:
        self._notes.setdefault(note)


def listed_models(answer: HttpAnswer, what: str) -> tuple[Mapping[str, Any], ...]:
    """The entries of a list of models. Raises UnusableAnswer on an error status and on any other body."""
    if answer.status != 200:
        refusal = refusal_from(answer.status, answer.body, elapsed_s=answer.elapsed_s)
        hint = "the key is missing or wrong: see api_key_env of the service" if answer.status in (401, 403) else ""
        raise UnusableAnswer(f"{what} answers HTTP {refusal.status}: {refusal.message}", hint=hint)
    entries = parse_object(answer.body, what).value.get("data")
    if not isinstance(entries, list):
        raise UnusableAnswer(f"{what} answers without a list of models")
    return tuple(map(mapping, entries))


def refuse_other_than_stream(stream: EventStream, what: str) -> None:
    """Raises UnusableAnswer when a stream was asked for and another kind of body came."""
    kind = stream.content_type.partition(";")[0].strip().lower()
    if kind not in ("text/event-stream", ""):
        raise UnusableAnswer(f"{what}: asked for a stream, but {kind} came")
