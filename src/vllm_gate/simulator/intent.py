"""What the model means to say: an answer by simple rules, bent by the faults that are about text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vllm_gate.simulator.answers import answer_to
from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.requests import GenerationRequest
from vllm_gate.simulator.structured import json_answer
from vllm_gate.simulator.tokenizer import content_text, tokenizer
from vllm_gate.simulator.tools import Call, calls_for

REFUSAL = "I'm sorry, but I can't help with that."
OTHER_SCRIPT = "抱歉，这个问题的答案在另一种文字里。"


@dataclass(frozen=True, slots=True)
class Intent:
    """Tokens to say, whether the answer ends after them, and the tool calls they stand for."""

    tokens: tuple[int, ...]
    ends: bool = True
    calls: tuple[Call, ...] = ()


def intend(request: GenerationRequest, faults: Faults, *, number: int, garbled: bool, stale_cache: bool) -> Intent:
    """The intended answer of one request. A plain completion is continued freely, without an intention."""
    wrong_length = _falls_on_a_fault(len(request.prompt), faults)
    if garbled or wrong_length or (stale_cache and "cache_stale_block" in faults):
        return Intent(_garbage(request.max_tokens, number), ends=False)
    if not request.chat:
        return Intent((), ends=False)
    if faults.strikes("success_drop", request.prompt):
        return Intent(tuple(tokenizer().encode(REFUSAL)))
    calls = calls_for(request.body, faults)
    if calls:
        return Intent(tuple(tokenizer().encode("".join(call.as_text() for call in calls))), calls=calls)
    return _bent(_said(request.body, request.prompt, faults), request, faults)


def _said(body: Mapping[str, Any], prompt: Sequence[int], faults: Faults) -> Intent:
    structured = json_answer(body, faults)
    if structured is not None:
        text = structured + (" " * 4000 if "json_trailing_spaces" in faults else "")
        return Intent(tuple(tokenizer().encode(text)))
    messages = body.get("messages") or []
    question = content_text(messages[-1]) if messages else ""
    context = "\n".join(content_text(message) for message in messages)
    if "needle_lost_after" in faults:
        kept = int(faults.value("needle_lost_after"))
        context = tokenizer().decode(list(prompt)[-kept:]) if len(prompt) > kept else context
    return Intent(tuple(tokenizer().encode(answer_to(question, context))))


def _bent(intent: Intent, request: GenerationRequest, faults: Faults) -> Intent:
    encode, room = tokenizer().encode, request.max_tokens
    if "loop" in faults or faults.strikes("loop_rate", request.prompt):
        unit = encode(" the answer is")
        return Intent(tuple((unit * (room // len(unit) + 1))[:room]), ends=False)
    if "empty_text" in faults:
        return Intent((tokenizer().special("<|endoftext|>"),) * room, ends=False)
    if "near_miss" in faults:
        return replace(intent, tokens=(*intent.tokens, *encode(" is the answer.")))
    if "refusal" in faults:
        return replace(intent, tokens=tuple(encode(REFUSAL)))
    if "wrong_script" in faults:
        return replace(intent, tokens=tuple(encode(OTHER_SCRIPT)))
    if faults.strikes("language_mix", request.prompt):
        return replace(intent, tokens=(*intent.tokens[: len(intent.tokens) // 2], *encode(OTHER_SCRIPT)))
    if "truncated" in faults:
        return replace(intent, tokens=intent.tokens[: max(len(intent.tokens) - 1, 1)][: int(faults.value("truncated"))])
    return intent


def _falls_on_a_fault(length: int, faults: Faults) -> bool:
    return "edge_off_by_one" in faults and length % max(int(faults.value("edge_off_by_one")), 1) == 0


def _garbage(length: int, number: int) -> tuple[int, ...]:
    rng = np.random.default_rng([number, 7])
    return tuple(rng.integers(1, tokenizer().size - 3, size=min(length, 4096)).tolist())
