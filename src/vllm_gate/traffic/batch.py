"""OpenAI Batch files, which vLLM's `run_batch` reads too: a request a line, whole. Answers may stand beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_gate.traffic.conversation import conversation_of
from vllm_gate.traffic.request import CHAT, COMPLETIONS, Skipped, TrafficRequest, chat_or_skipped


class Batch:
    """`{"custom_id", "method", "url", "body"}`; with `response`, as in an output file, if it kept its `body`."""

    name = "OpenAI Batch"

    def recognises(self, row: Mapping[str, Any]) -> bool:
        """See `Format`."""
        return "custom_id" in row and ("body" in row or "response" in row)

    def read(self, row: Mapping[str, Any], line: int) -> list[TrafficRequest | Skipped]:
        """See `Format`."""
        body, url = row.get("body"), str(row.get("url") or CHAT)
        if not isinstance(body, Mapping):
            return [Skipped("an answer without its request", line, bad=True)]
        if url not in (CHAT, COMPLETIONS):
            return [Skipped(f"endpoint {url}", line)]
        answer = row.get("response")
        recorded = answer.get("body") if isinstance(answer, Mapping) and answer.get("status_code") == 200 else None
        request = TrafficRequest(
            id=str(row["custom_id"]),
            endpoint=url,
            body=body,
            recorded=recorded if isinstance(recorded, Mapping) else None,
            session=conversation_of(body),
            line=line,
        )
        return [chat_or_skipped(request)]
