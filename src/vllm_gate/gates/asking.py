"""Asking a service many things at once, and showing what was asked and answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import TypeVar

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.judge.diagnosis import diagnose_status
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal

T = TypeVar("T")


def ask_all(
    asks: Sequence[Callable[[], T]], concurrency: int, enough: Callable[[int, T | CouldNotJudge], bool]
) -> None:
    """Call every function, at most `concurrency` at a time, and hand each result to `enough` as it comes.

    `enough(index, result)` runs in the calling thread; once it returns True nothing new is started and what is under
    way is left to itself, so that a hung server costs one timeout and not one a request. Errors that are answers
    (`CouldNotJudge`) are results; any other is raised here.
    """
    todo: SimpleQueue[int | None] = SimpleQueue()
    results: SimpleQueue[tuple[int, T | Exception]] = SimpleQueue()

    def work() -> None:
        while (index := todo.get()) is not None:
            try:
                results.put((index, asks[index]()))
            except Exception as error:
                results.put((index, error))

    workers = min(concurrency, len(asks))
    for number in range(workers):
        todo.put(number)
        # Daemons: a thread that waits for a hung server must not keep the process alive.
        threading.Thread(target=work, daemon=True).start()
    try:
        for following in range(workers, workers + len(asks)):
            index, result = results.get()
            if isinstance(result, Exception) and not isinstance(result, CouldNotJudge):
                raise result
            if enough(index, result):
                return
            if following < len(asks):
                todo.put(following)
    finally:
        for _ in range(workers):
            todo.put(None)


def one_token(service: Service) -> Answer | CouldNotJudge:
    """One generated token; a model without a chat template is asked for a plain continuation."""
    try:
        answer = service.chat([{"role": "user", "content": "Hello"}], max_tokens=1)
        if isinstance(answer, Refusal) and answer.status == 400:
            return service.complete("Hello", max_tokens=1)
        return answer
    except CouldNotJudge as error:
        return error


def no_token(check: str, answer: Answer | CouldNotJudge) -> Finding:
    """No token came: the server's own failure, or a request that it would not take."""
    if isinstance(answer, Refusal):
        diagnosis = diagnose_status(answer.status, answer.message)
        return Finding(
            check=check,
            verdict=Verdict.FAIL if answer.status >= 500 else Verdict.ERROR,
            symptom=diagnosis.symptom,
            message=f"one token could not be generated: {diagnosis.sentence}",
            evidence=(answer_evidence("what came back", answer),),
            remedy=diagnosis.remedy,
        )
    hint = answer.hint if isinstance(answer, CouldNotJudge) else ""
    return Finding(
        check=check, verdict=Verdict.ERROR, symptom="no_answer", message=f"no token came: {answer}", remedy=hint
    )


def request_evidence(service: Service, title: str, body: Mapping[str, object]) -> Evidence:
    """The request as a JSON body that can be sent again."""
    whole = {"model": service.model, **body}
    return Evidence(EvidenceKind.REQUEST, title, json.dumps(whole, ensure_ascii=False))


def answer_evidence(title: str, answer: Answer | CouldNotJudge) -> Evidence:
    """What came back: status, text, token ids, and how it ended."""
    return Evidence(EvidenceKind.RESPONSE, title, _shown(answer))


def _shown(answer: Answer | CouldNotJudge) -> str:
    if isinstance(answer, CouldNotJudge):
        return f"no answer: {answer}"
    if isinstance(answer, Refusal):
        within = " inside the stream" if answer.in_stream else ""
        return f"HTTP {answer.status}{within}: {answer.message}\n{answer.body}".rstrip()
    seen: dict[str, object] = {
        "text": answer.text,
        "reasoning": answer.reasoning,
        "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in answer.tool_calls],
        "finish_reason": answer.finish_reason,
        "token_ids": None if answer.token_ids is None else list(answer.token_ids),
        "completion_tokens": answer.usage.completion_tokens,
        "streamed": answer.streamed,
        "seconds": round(answer.elapsed_s, 3),
    }
    return "\n".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in seen.items() if value or key == "text"
    )
