"""One request of real traffic put to both sides, and what became of it. Nothing goes back to a user; no tool is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vllm_gate.config.plan import Validator
from vllm_gate.errors import CouldNotJudge, NoAnswer
from vllm_gate.gates.canary.outcome import UNANSWERED, Outcome, Side
from vllm_gate.gates.canary.reading import body_to_send, last_text, recorded_reply, said_by, task_of
from vllm_gate.gates.canary.validators import RunCommand, refusals
from vllm_gate.judge.task_success import failures
from vllm_gate.server.failures import TIMEOUT
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal, Reply
from vllm_gate.traffic.sampling import Sampled

_BUSY = (429, 503)
_WAITS = (0.5, 1.0, 2.0)
"""Seconds before a server that says it is busy is asked again."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An outcome, and whether one of the servers had more to do than it could."""

    outcome: Outcome
    struggled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Asks both sides. `baseline` None: the answers in the log stand for it. Safe to use from several threads."""

    candidate: Service
    baseline: Service | None
    max_tokens: int
    validators: Sequence[Validator]
    run_command: RunCommand
    kept: Callable[[str], str]
    """What may be kept of a text."""
    sleep: Callable[[float], None]

    def ask(self, sampled: Sampled) -> Pair:
        """The pair's outcome. Raises CouldNotJudge when a validator's command is broken."""
        request = sampled.request
        body = body_to_send(request, self.max_tokens)
        struggled = False
        answers: list[Answer | CouldNotJudge] = []
        for service in (self.candidate, self.baseline):
            if service is None:
                answers.append(recorded_reply(request) or CouldNotJudge("the log holds no answer"))
                continue
            answer, busy = self._answer(service, request.endpoint, body)
            answers.append(answer)
            struggled |= busy
        ours, theirs = answers
        candidate, baseline = self._side(sampled, ours, theirs), self._side(sampled, theirs, ours)
        outcome = Outcome(
            number=sampled.number, key=sampled.key, candidate=candidate, baseline=baseline, line=request.line
        )
        telling = bool(candidate.failed) != bool(baseline.failed)
        return Pair(self._with_texts(outcome, sampled, ours, theirs) if telling else outcome, struggled)

    def _answer(self, service: Service, endpoint: str, body: dict[str, object]) -> tuple[Answer | CouldNotJudge, bool]:
        """The answer, and whether the server was overloaded. Only one that says so is asked again."""
        struggled = False
        for wait in (*_WAITS, None):
            try:
                answer: Answer | CouldNotJudge = service.send(endpoint, body)
            except CouldNotJudge as error:
                answer = error
            busy = isinstance(answer, Refusal) and answer.status in _BUSY
            struggled |= busy or (isinstance(answer, NoAnswer) and answer.reason == TIMEOUT)
            if not busy or wait is None:
                break
            self.sleep(wait)
        return answer, struggled

    def _side(self, sampled: Sampled, own: Answer | CouldNotJudge, other: Answer | CouldNotJudge) -> Side:
        if not isinstance(own, Reply):
            return Side(failed=(f"{UNANSWERED}:{_why(own)}",))
        reference = said_by(other) if isinstance(other, Reply) else said_by(own)
        signals = (
            *failures(task_of(sampled.request), said_by(own), reference),
            *refusals(self.validators, sampled.request, own, self.run_command),
        )
        usage = own.usage
        used = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0) if own.elapsed_s else 0
        return Side(failed=signals, finish_reason=own.finish_reason, tokens=used, seconds=round(own.elapsed_s, 4))

    def _with_texts(
        self, outcome: Outcome, sampled: Sampled, ours: Answer | CouldNotJudge, theirs: Answer | CouldNotJudge
    ) -> Outcome:
        """The outcome with what may be kept of the texts: only where the two sides differ is there something to see."""
        return replace(
            outcome,
            candidate=replace(outcome.candidate, said=self.kept(_text(ours))),
            baseline=replace(outcome.baseline, said=self.kept(_text(theirs))),
            asked=self.kept(last_text(sampled.request)),
        )


def _text(answer: Answer | CouldNotJudge) -> str:
    if not isinstance(answer, Reply):
        return ""
    calls = " ".join(f"{call.name}({call.arguments})" for call in answer.tool_calls)
    return " ".join(filter(None, (answer.text or answer.reasoning, calls)))


def _why(answer: Answer | CouldNotJudge) -> str:
    if isinstance(answer, Refusal):
        return f"http_{answer.status}"
    return answer.reason if isinstance(answer, NoAnswer) else "unusable"
