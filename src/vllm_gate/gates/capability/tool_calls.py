"""Tool calls: single, parallel, forced and none; every JSON type; streamed as well as whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vllm_gate.core.finding import Evidence, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import answer_evidence, request_evidence
from vllm_gate.gates.interface import Context
from vllm_gate.judge.buckets import VALID, call_bucket
from vllm_gate.server.reply import Answer, Refusal, Reply

_MAX_TOKENS = 300


def _tool(name: str, description: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = _tool("get_weather", "The weather in a city.", city={"type": "string"}, days={"type": "integer"})
BOOK = _tool(
    "book_table",
    "Book a table in a restaurant.",
    guests={"type": "integer"},
    deposit={"type": "number"},
    outside={"type": "boolean"},
    note={"type": ["string", "null"]},
    kind={"enum": ["lunch", "dinner"]},
    dishes={"type": "array", "items": {"type": "string"}},
    contact={
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    },
)
"""Every JSON type in one call, the ones that are no strings in the middle: that is where streamed calls break."""
TIME = _tool("get_time", "The time in a city.", city={"type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCase:
    """One conversation. `calls` is how many calls it needs at least."""

    id: str
    prompt: str
    tools: Sequence[Mapping[str, Any]]
    calls: int
    choice: Any = "auto"


CASES = (
    ToolCase(id="single", prompt='Call get_weather with city = "Oslo" and days = 3.', tools=(WEATHER, TIME), calls=1),
    ToolCase(
        id="typed",
        prompt='Call book_table with guests = 4, deposit = 12.5, outside = true, note = null, kind = "dinner", '
        'dishes = ["soup", "bread"], contact = {"name": "Ada", "age": 36}.',
        tools=(BOOK,),
        calls=1,
        choice={"type": "function", "function": {"name": "book_table"}},
    ),
    ToolCase(
        id="parallel",
        prompt='Call get_weather with city = "Rome" and days = 1, and also call get_time with city = "Rome".',
        tools=(WEATHER, TIME),
        calls=2,
    ),
    ToolCase(id="none", prompt="Reply with exactly: OK", tools=(WEATHER, TIME), calls=0, choice="none"),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """How one answer is wrong, and the answer."""

    case: ToolCase
    streamed: bool
    kind: str
    detail: str
    answer: Answer


def ask_tools(context: Context) -> Iterator[Finding]:
    """Every case whole and streamed, sorted by how it is wrong."""
    faults: list[Fault] = []
    missed: list[str] = []
    judged = 0
    for done, case in enumerate(CASES):
        answers = {streamed: _ask(context, case, streamed) for streamed in (False, True)}
        context.progress("tool calls", done + 1, len(CASES), "cases")
        refused = next((a for a in answers.values() if not isinstance(a, Reply)), None)
        if refused is not None:
            yield _refused(context, case, refused)
            return
        replies = {streamed: answer for streamed, answer in answers.items() if isinstance(answer, Reply)}
        judged += len(replies)
        found = [fault for streamed, reply in replies.items() for fault in _faults(case, streamed, reply)]
        faults += found or _differs(case, replies)
        missed += [case.id for reply in replies.values() if not found and len(reply.tool_calls) < case.calls]
    context.facts["tool_calls"] = {"answers": judged, "missed_by_the_model": sorted(set(missed))}
    yield _concluded(context, faults, missed, judged)


def _faults(case: ToolCase, streamed: bool, reply: Reply) -> list[Fault]:
    """What is wrong with one answer by itself. A model that makes no call at all is its own affair."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in case.tools}
    if reply.tool_calls and case.calls == 0:
        return [Fault(case, streamed, "unneeded_call", "a tool was called although tool_choice is none", reply)]
    if not reply.tool_calls and case.calls and any(name in reply.text for name in schemas) and "{" in reply.text:
        return [Fault(case, streamed, "call_in_text", "the call was left in the text", reply)]
    if not reply.tool_calls and _is_one_token(reply):
        return [Fault(case, streamed, "garbage", f"one token over and over: {reply.text[:40]!r}", reply)]
    found = []
    for call in reply.tool_calls:
        bucket, detail = call_bucket(call.name, call.arguments, schemas)
        if bucket != VALID:
            found.append(Fault(case, streamed, bucket, detail, reply))
        if not call.id:
            found.append(Fault(case, streamed, "no_id", f"the call of {call.name} has no id", reply))
    if 0 < len(reply.tool_calls) < case.calls:
        what = f"{len(reply.tool_calls)} of {case.calls} parallel calls arrived"
        found.append(Fault(case, streamed, "parallel_merged", what, reply))
    if reply.tool_calls and case.choice == "auto" and reply.finish_reason != "tool_calls":
        what = f"finish_reason is {reply.finish_reason!r}"
        found.append(Fault(case, streamed, "wrong_finish_reason", what, reply))
    return found


def _is_one_token(reply: Reply) -> bool:
    ids = reply.token_ids or ()
    return len(ids) >= 8 and len(set(ids)) == 1


def _differs(case: ToolCase, replies: Mapping[bool, Reply]) -> list[Fault]:
    """A streamed call must say what the whole one says."""
    whole, streamed = (_said_calls(replies[key]) for key in (False, True))
    if whole == streamed:
        return []
    what = f"streamed {streamed} and whole {whole} differ"
    return [Fault(case, True, "stream_differs", what[:300], replies[True])]


def _said_calls(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]


def _concluded(context: Context, faults: Sequence[Fault], missed: Sequence[str], judged: int) -> Finding:
    if not faults:
        told = f"the model made no call in {', '.join(sorted(set(missed)))}: its own choice, not the server's"
        return Finding(
            check="tools",
            verdict=Verdict.PASS,
            message=f"{judged} answers: every tool call that was made is whole, known and typed",
            warning=told if missed else "",
            samples=judged,
        )
    first = faults[0]
    kinds = ", ".join(dict.fromkeys(fault.kind for fault in faults))
    return Finding(
        check="tools",
        verdict=Verdict.FAIL,
        symptom=first.kind,
        message=f"{len(faults)} faults in {judged} answers with tools ({kinds}); {first.case.id}"
        f"{', streamed' if first.streamed else ''}: {first.detail}",
        measured=float(len(faults)),
        threshold=0.0,
        unit="faults",
        samples=judged,
        evidence=_evidence(context, first.case, first.streamed, first.answer),
        location=context.plan.where("gate_config.gate_4_long_context.tool_call_schema_check"),
        remedy="Check --tool-call-parser and the chat template of this model, and compare with the release before.",
    )


def _refused(context: Context, case: ToolCase, answer: Answer | CouldNotJudge) -> Finding:
    """Tools that the server was not started for can't be judged; anything else is an error."""
    off = isinstance(answer, Refusal) and answer.status in (400, 404, 422, 501)
    said = f"HTTP {answer.status}, {answer.message}" if isinstance(answer, Refusal) else str(answer)
    return Finding(
        check="tools",
        verdict=Verdict.INCONCLUSIVE if off else Verdict.ERROR,
        symptom="tools_off" if off else "no_answer",
        message=f"{'tool calls are not enabled' if off else 'requests with tools are not answered'}: {said}",
        evidence=_evidence(context, case, False, answer),
        location=context.plan.where("gate_config.gate_4_long_context.tool_call_schema_check"),
        remedy="Serve with --enable-auto-tool-choice --tool-call-parser NAME, or set tool_call_schema_check to false.",
    )


def _evidence(
    context: Context, case: ToolCase, streamed: bool, answer: Answer | CouldNotJudge
) -> tuple[Evidence, Evidence]:
    body = _body(case) | ({"stream": True} if streamed else {})
    return request_evidence(context.under_test, case.id, body), answer_evidence("what came back", answer)


def _body(case: ToolCase) -> dict[str, Any]:
    messages = [{"role": "user", "content": case.prompt}]
    return {"messages": messages, "max_tokens": _MAX_TOKENS, "tools": list(case.tools), "tool_choice": case.choice}


def _ask(context: Context, case: ToolCase, streamed: bool) -> Answer | CouldNotJudge:
    try:
        return context.under_test.chat(**_body(case), stream=streamed)
    except CouldNotJudge as error:
        return error
