"""One answer to a request with tools: what is wrong with it, and whose fault that is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm_gate.gates.capability.tool_cases import ToolCase
from vllm_gate.judge.buckets import RUNAWAY, TRUNCATED, VALID, call_bucket, repeated_piece
from vllm_gate.server.reply import Reply

CALL_MARKS = ("<tool_call", "<function", "[TOOL_CALLS]", "<|python_tag|>", "<|tool", "<｜tool")
"""How models of several families begin a call in their own text, for a parser to take out."""


@dataclass(frozen=True, slots=True)
class Fault:
    """How one answer is wrong, and the answer."""

    case: ToolCase
    streamed: bool
    kind: str
    detail: str
    reply: Reply


def faults_of(case: ToolCase, streamed: bool, reply: Reply, max_tokens: int) -> list[Fault]:
    """What is wrong with one answer by itself. A model that makes no call at all is its own affair."""
    cut = reply.finish_reason == "length" or (reply.usage.completion_tokens or 0) >= max_tokens
    found = _of_calls(case, reply, cut) if reply.tool_calls else _without_calls(case, reply, cut)
    return [Fault(case, streamed, kind, detail, reply) for kind, detail in found]


def _without_calls(case: ToolCase, reply: Reply, cut: bool) -> list[tuple[str, str]]:
    begun = any(name in reply.text for name in case.schemas) and "{" in reply.text
    if case.calls and begun and cut:
        if piece := repeated_piece(reply.text):
            return [(RUNAWAY, f"the call was never finished: {piece[:40]!r} is repeated until max_tokens")]
        return [(TRUNCATED, "max_tokens cut the call before its end, so no parser can take it out of the text")]
    if case.calls and begun:
        return [("call_in_text", "the call was left in the text")]
    if case.calls and not reply.text and any(mark in reply.reasoning for mark in CALL_MARKS):
        return [("call_in_reasoning", "the call was left in the reasoning")]
    if _is_one_token(reply):
        return [("garbage", f"one token over and over: {reply.text[:40]!r}")]
    if reply.finish_reason == "tool_calls":
        return [("wrong_finish_reason", "finish_reason is 'tool_calls' although no call came")]
    return []


def _of_calls(case: ToolCase, reply: Reply, cut: bool) -> list[tuple[str, str]]:
    calls, found = reply.tool_calls, []
    if case.choice == "none":
        return [("unneeded_call", "a tool was called although tool_choice is none")]
    for call in calls:
        bucket, detail = call_bucket(call.name, call.arguments, case.schemas, cut=cut)
        if bucket != VALID:
            found.append((bucket, detail))
        if not call.id:
            found.append(("no_id", f"the call of {call.name} has no id"))
    twice = [identity for identity, times in Counter(call.id for call in calls if call.id).items() if times > 1]
    if twice:
        found.append(("same_id", f"two calls of one answer have the id {twice[0]!r}"))
    if [call.index for call in calls] != list(range(len(calls))):
        found.append(("wrong_order", f"the calls are numbered {[call.index for call in calls]}"))
    if isinstance(case.choice, dict) and calls[0].name != (forced := case.choice["function"]["name"]):
        found.append(("choice_ignored", f"{calls[0].name!r} was called although tool_choice names {forced!r}"))
    if len(calls) < case.calls and not cut:
        found.append(("parallel_merged", f"{len(calls)} of {case.calls} parallel calls arrived"))
    if case.choice == "auto" and not cut and reply.finish_reason != "tool_calls":
        found.append(("wrong_finish_reason", f"finish_reason is {reply.finish_reason!r}"))
    return found


def _is_one_token(reply: Reply) -> bool:
    ids = reply.token_ids or ()
    return len(ids) >= 8 and len(set(ids)) == 1


def difference(case: ToolCase, replies: Mapping[bool, Reply]) -> Fault | None:
    """A streamed call must say what the whole one says. Both answers' calls are sound JSON by now."""
    whole, streamed = (said_calls(replies[key]) for key in (False, True))
    if whole == streamed:
        return None
    what = f"streamed {streamed} and whole {whole} differ"
    return Fault(case, True, "stream_differs", what[:300], replies[True])


def said_calls(reply: Reply) -> list[tuple[str, Any]]:
    """Names and arguments, in order."""
    return [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]
