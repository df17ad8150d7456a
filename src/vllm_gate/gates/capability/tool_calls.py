"""Tool calls, whole and streamed: how many answers are sound, and how the others are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vllm_gate.core.finding import Evidence, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import answer_evidence, request_evidence
from vllm_gate.gates.capability.known import Known, baseline_of, ran_out_of_thinking
from vllm_gate.gates.capability.tool_cases import CASES, MAX_TOKENS, ToolCase
from vllm_gate.gates.capability.tool_faults import Fault, difference, faults_of
from vllm_gate.gates.interface import Context
from vllm_gate.judge.rates import rate
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal, Reply

_SHOWN = 400


@dataclass(slots=True)
class _Sorted:
    """Every answer by how it is wrong."""

    judged: int = 0
    faults: list[Fault] = field(default_factory=list)
    as_before: list[Fault] = field(default_factory=list)
    """Faults that the baseline shows on the same request."""
    own_choice: list[str] = field(default_factory=list)
    """Cases in which the model called nothing, or something that nobody asked for."""
    unfinished: list[str] = field(default_factory=list)
    """Cases in which max_tokens came while the model was still thinking."""
    answers: list[dict[str, object]] = field(default_factory=list)


def ask_tools(context: Context, known: Known) -> Iterator[Finding]:
    """Every case whole and streamed, sorted by how it is wrong."""
    found, room = _Sorted(), known.room(context)
    for done, case in enumerate(CASES):
        replies = _replies(context.under_test, case, room)
        context.progress("tool calls", done + 1, len(CASES), "cases")
        if not isinstance(replies, Mapping):
            yield _refused(context, case, replies)
            return
        faults = _faults(context.under_test, case, replies, room)
        before = _faults_of_baseline(context, case, room) if faults else set()
        found.as_before += [fault for fault in faults if fault.kind in before]
        found.faults += [fault for fault in faults if fault.kind not in before]
        _note(found, case, replies, faults)
    context.facts["tool_calls"] = {
        "answers": found.judged,
        "own_choice": sorted(set(found.own_choice)),
        "sorted": found.answers,
    }
    yield _concluded(context, found, room)


def _replies(service: Service, case: ToolCase, room: int) -> dict[bool, Reply] | Answer | CouldNotJudge:
    """The whole and the streamed reply, or what came instead of one."""
    replies = {}
    for streamed in (False, True):
        try:
            answer = service.chat(**case.body(room), stream=streamed)
        except CouldNotJudge as error:
            return error
        if not isinstance(answer, Reply):
            return answer
        replies[streamed] = answer
    return replies


def _faults(service: Service, case: ToolCase, replies: Mapping[bool, Reply], room: int) -> list[Fault]:
    """Each answer's own faults; without any, whether the two say the same.

    Two runs of a busy server may differ by chance, so that a difference counts once it shows a second time.
    """
    found = [fault for key, reply in replies.items() for fault in faults_of(case, key, reply, MAX_TOKENS + room)]
    if found:
        return found
    differs = difference(case, replies)
    if differs is None:
        return []
    again = _replies(service, case, room)
    if not isinstance(again, dict):
        return [differs]
    found = [fault for key, reply in again.items() for fault in faults_of(case, key, reply, MAX_TOKENS + room)]
    repeated = None if found else difference(case, again)
    return found or ([repeated] if repeated else [])


def _faults_of_baseline(context: Context, case: ToolCase, room: int) -> set[str]:
    """The kinds of fault that the release before shows on the same request: those are nothing new."""
    service = baseline_of(context)
    replies = _replies(service, case, room) if service else None
    if service is None or not isinstance(replies, dict):
        return set()
    return {fault.kind for fault in _faults(service, case, replies, room)}


def _note(found: _Sorted, case: ToolCase, replies: Mapping[bool, Reply], faults: Sequence[Fault]) -> None:
    for streamed, reply in replies.items():
        own = [fault.kind for fault in faults if fault.streamed is streamed]
        called = len(reply.tool_calls)
        if ran_out_of_thinking(reply) and not called:
            found.unfinished.append(case.id)
            own = ["still_thinking"]
        else:
            found.judged += 1
            if not own and (called < case.calls or called > case.calls == 0):
                found.own_choice.append(case.id)
                own = ["no_call" if called < case.calls else "unasked_call"]
        calls = [f"{call.name}({call.arguments})" for call in reply.tool_calls]
        found.answers.append(
            {
                "case": case.id,
                "streamed": streamed,
                "sorted_as": own or ["sound"],
                "finish_reason": reply.finish_reason,
                "said": (" ".join(calls) or reply.text)[:_SHOWN],
            }
        )


def _concluded(context: Context, found: _Sorted, room: int) -> Finding:
    if found.faults:
        return _failed(context, found, room)
    if not found.judged:
        return Finding(
            check="tools",
            verdict=Verdict.INCONCLUSIVE,
            symptom="still_thinking",
            message=f"the model thinks on for {MAX_TOKENS + room} tokens in every answer, so that no call is seen",
            remedy="Serve with a --reasoning-parser that fits the model, or with its thinking switched off.",
        )
    sound = rate(found.judged - len({id(fault.reply) for fault in found.as_before}), found.judged)
    return Finding(
        check="tools",
        verdict=Verdict.PASS,
        message=f"{sound.successes} of {found.judged} answers: every tool call is whole, known and typed",
        warning="; ".join(_warnings(found)),
        measured=sound.value,
        unit="sound answers",
        interval=sound.interval,
        samples=found.judged,
    )


def _warnings(found: _Sorted) -> Iterator[str]:
    if found.as_before:
        kinds = ", ".join(f"{fault.case.id}: {fault.kind}" for fault in found.as_before)
        yield f"the baseline has the same faults on the same requests ({kinds}), so the release is no worse"
    if found.own_choice:
        cases = ", ".join(sorted(set(found.own_choice)))
        yield f"the model did not call what was asked for in {cases}: its own choice, not the server's"
    if found.unfinished:
        yield f"still thinking at max_tokens in {', '.join(sorted(set(found.unfinished)))}: not judged"


def _failed(context: Context, found: _Sorted, room: int) -> Finding:
    first = found.faults[0]
    kinds = ", ".join(dict.fromkeys(fault.kind for fault in found.faults))
    wrong = len({id(fault.reply) for fault in found.faults})
    sound = rate(max(found.judged - wrong, 0), max(found.judged, wrong))
    return Finding(
        check="tools",
        verdict=Verdict.FAIL,
        symptom=first.kind,
        message=f"{wrong} of {sound.trials} answers with tools are wrong ({kinds}); {first.case.id}"
        f"{', streamed' if first.streamed else ''}: {first.detail}",
        measured=sound.value,
        threshold=1.0,
        unit="sound answers",
        interval=sound.interval,
        samples=sound.trials,
        evidence=_evidence(context, first.case, first.streamed, first.reply, room),
        location=context.plan.where("gate_config.gate_4_long_context.tool_call_schema_check"),
        remedy=_REMEDIES.get(
            first.kind,
            "Check --tool-call-parser and the chat template of this model, and compare with the release before.",
        ),
    )


_LOOP = (
    "The model does not finish its call: ask the release before the same. If that one does, suspect quantisation and "
    "kernels; if not, the model is too small for these tools."
)
_REMEDIES = {
    "truncated": _LOOP,
    "runaway": _LOOP,
    "stream_differs": "The streamed parser loses or changes arguments: check --tool-call-parser's version, and let "
    "clients ask without streaming until it is right.",
    "call_in_reasoning": "The reasoning parser swallows calls: check that --reasoning-parser and --tool-call-parser "
    "fit the model and each other.",
}


def _refused(context: Context, case: ToolCase, answer: Answer | CouldNotJudge) -> Finding:
    """Tools that the server was not started for can't be judged; anything else is an error."""
    off = isinstance(answer, Refusal) and answer.status in (400, 404, 422, 501)
    said = f"HTTP {answer.status}, {answer.message}" if isinstance(answer, Refusal) else str(answer)
    return Finding(
        check="tools",
        verdict=Verdict.INCONCLUSIVE if off else Verdict.ERROR,
        symptom="tools_off" if off else "no_answer",
        message=f"{'tool calls are not enabled' if off else 'requests with tools are not answered'}: {said}",
        evidence=_evidence(context, case, False, answer, 0),
        location=context.plan.where("gate_config.gate_4_long_context.tool_call_schema_check"),
        remedy="Serve with --enable-auto-tool-choice --tool-call-parser NAME, or set tool_call_schema_check to false.",
    )


def _evidence(
    context: Context, case: ToolCase, streamed: bool, answer: Answer | CouldNotJudge, room: int
) -> tuple[Evidence, Evidence]:
    body = case.body(room) | ({"stream": True} if streamed else {})
    return request_evidence(context.under_test, case.id, body), answer_evidence("what came back", answer)
