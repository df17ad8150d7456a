"""LiteLLM's standard logging payload, a line a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_gate.traffic.conversation import conversation_of
from vllm_gate.traffic.request import CHAT, Skipped, TrafficRequest, chat_or_skipped

_CALLS = ("acompletion", "completion")
_NO_FIELDS = ("model", "messages", "stream", "user", "api_key", "api_base", "base_url", "extra_headers", "headers")
"""Of `model_parameters`: what is set anew, and what must not travel."""


class LiteLlm:
    """`{"id", "call_type", "messages", "model_parameters", "response", …}`."""

    name = "LiteLLM"

    def recognises(self, row: Mapping[str, Any]) -> bool:
        """See `Format`."""
        return "call_type" in row and "messages" in row

    def read(self, row: Mapping[str, Any], line: int) -> list[TrafficRequest | Skipped]:
        """See `Format`. What came from LiteLLM's own cache says nothing of the model, and is left out."""
        if row["call_type"] not in _CALLS:
            return [Skipped(f"call type {row['call_type']}", line)]
        if row.get("cache_hit") is True:
            return [Skipped("answered from LiteLLM's cache", line)]
        given = row.get("model_parameters")
        parameters = {
            key: value
            for key, value in (given.items() if isinstance(given, Mapping) else ())
            if key not in _NO_FIELDS and value is not None
        }
        messages = row["messages"]
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        answer = row.get("response")
        whole = isinstance(answer, Mapping) and "choices" in answer and row.get("status") in (None, "success")
        request = TrafficRequest(
            id=str(row.get("id") or line),
            endpoint=CHAT,
            body={**parameters, "messages": messages},
            recorded=answer if whole else None,
            session=str(row.get("trace_id") or "") or conversation_of({"messages": messages}),
            line=line,
        )
        return [chat_or_skipped(request)]
