"""Prompts without answers: ShareGPT conversations, and the custom data sets of vLLM's benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_gate.traffic.request import CHAT, COMPLETIONS, Skipped, TrafficRequest, chat_or_skipped

_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}


class ShareGpt:
    """`{"id", "conversations": [{"from", "value"}, …]}`: one request for each human turn, with all before it."""

    name = "ShareGPT"

    def recognises(self, row: Mapping[str, Any]) -> bool:
        """See `Format`."""
        return isinstance(row.get("conversations"), list)

    def read(self, row: Mapping[str, Any], line: int) -> list[TrafficRequest | Skipped]:
        """See `Format`. The turns of one conversation are sampled together."""
        conversation = str(row.get("id") or line)
        messages: list[dict[str, str]] = []
        found: list[TrafficRequest | Skipped] = []
        for turn in row["conversations"]:
            role = _ROLES.get(str(turn.get("from"))) if isinstance(turn, Mapping) else None
            if role is None or not isinstance(turn.get("value"), str):
                return [*found, Skipped("a turn of nobody known", line, bad=True)]
            messages = [*messages, {"role": role, "content": turn["value"]}]
            if role == "user":
                request = TrafficRequest(
                    id=f"{conversation}/{len(messages)}",
                    endpoint=CHAT,
                    body={"messages": messages},
                    session=conversation,
                    line=line,
                )
                found.append(chat_or_skipped(request))
        return found or [Skipped("a conversation without a human turn", line, bad=True)]


class VllmBench:
    """`{"prompt": …, "output_tokens": …}`."""

    name = "vLLM bench"

    def recognises(self, row: Mapping[str, Any]) -> bool:
        """See `Format`."""
        return "prompt" in row and "custom_id" not in row and "messages" not in row and "call_type" not in row

    def read(self, row: Mapping[str, Any], line: int) -> list[TrafficRequest | Skipped]:
        """See `Format`."""
        limit = row.get("output_tokens")
        body = {"prompt": row["prompt"], **({"max_tokens": limit} if isinstance(limit, int) else {})}
        return [chat_or_skipped(TrafficRequest(id=str(line), endpoint=COMPLETIONS, body=body, line=line))]
