"""Questions whose right answer is known: asked under every condition, and explained when answered wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from vllm_gate.config.golden import GoldenCase
from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Evidence, Location
from vllm_gate.errors import CouldNotJudge, NoAnswer
from vllm_gate.gates.asking import answer_evidence, ask_all, request_evidence
from vllm_gate.gates.interface import Progress
from vllm_gate.judge.agreement import misses
from vllm_gate.judge.diagnosis import Diagnosis, Observed, diagnose, diagnose_hang, diagnose_status
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal, Reply

HOPELESS = 8
"""Wrong answers without a right one after which asking on teaches nothing."""
HANGS = 2
"""Unfinished requests after which the others are not worth their timeouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One golden prompt. `misses` says why a reply is not the agreed answer, "" when it is."""

    id: str
    messages: Sequence[Mapping[str, object]]
    max_tokens: int
    misses: Callable[[Reply], str]
    expected: str = ""
    """The agreed text, for telling a near miss; "" where the agreement is a rule."""
    options: Mapping[str, Any] = field(default_factory=dict)
    location: Location | None = None

    @property
    def prompt(self) -> str:
        """What the model reads, as one text."""
        return "\n".join(str(message.get("content", "")) for message in self.messages)


def suite(plan: Plan) -> tuple[Question, ...]:
    """The cases of the golden suite."""
    return tuple(map(_question, plan.golden_cases))


def probe(plan: Plan) -> Question:
    """The deterministic probe, exactly as configured."""
    settings = plan.gates.golden_prompt
    return Question(
        id="deterministic_probe",
        messages=({"role": "user", "content": settings.deterministic_probe},),
        max_tokens=settings.max_tokens,
        options={"temperature": settings.temperature},
        misses=_rule("exact", settings.expected_output),
        expected=settings.expected_output.strip(),
        location=plan.where("gate_config.gate_3_golden_prompt.deterministic_probe"),
    )


def _question(case: GoldenCase) -> Question:
    kind, value = case.expect.kind, case.expect.value
    return Question(
        id=case.id,
        messages=case.messages,
        max_tokens=case.max_tokens,
        options=case.options,
        misses=_rule(kind, value),
        expected=value.strip() if kind in ("exact", "contains") else value[0].strip() if kind == "one_of" else "",
        location=case.location,
    )


def _rule(kind: str, value: Any) -> Callable[[Reply], str]:
    def missed(reply: Reply) -> str:
        return misses(kind, value, reply.text, [(call.name, call.arguments) for call in reply.tool_calls])

    return missed


@dataclass(frozen=True, slots=True)
class Job:
    """One request to be sent."""

    question: Question
    concurrency: int
    streamed: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request and what came back. `right` is None where the answer can't be judged."""

    job: Job
    result: Answer | CouldNotJudge
    right: bool | None
    dead: bool = False
    """Whether the server was found not to answer at all any more."""


def ask_under_all_conditions(
    service: Service, questions: Sequence[Question], *, levels: Sequence[int], repeats: int, progress: Progress
) -> list[Outcome]:
    """Every question at each concurrency, streamed and not, `repeats` times; stops when nothing more can be learned.

    The lightest level is asked first. Where it gave no right answer, heavier ones would only repeat that.
    """
    waves = [_jobs(questions, repeats, level) for level in sorted(levels)]
    planned = sum(map(len, waves))
    outcomes: list[Outcome] = []
    for jobs in waves:

        def seen(index: int, result: Answer | CouldNotJudge, jobs: Sequence[Job] = jobs) -> bool:
            outcomes.append(_judged(service, jobs[index], result))
            progress(f"{jobs[index].concurrency} at a time", len(outcomes), planned, "answers")
            return _hopeless(outcomes)

        ask_all([partial(_ask, service, job) for job in jobs], jobs[0].concurrency, seen)
        if _hopeless(outcomes) or not any(outcome.right for outcome in outcomes):
            break
    return outcomes


def _jobs(questions: Sequence[Question], repeats: int, concurrency: int) -> list[Job]:
    """Streamed and not in turn, `repeats` times, and on until every place at this concurrency is filled."""
    once = [Job(question, concurrency, streamed) for question in questions for streamed in (False, True)]
    rounds = max(repeats, -(-concurrency // len(once)))
    return once * rounds


def _ask(service: Service, job: Job) -> Answer:
    question = job.question
    return service.chat(question.messages, max_tokens=question.max_tokens, stream=job.streamed, **question.options)


def _judged(service: Service, job: Job, result: Answer | CouldNotJudge) -> Outcome:
    """Right or wrong where the server answered for itself; unjudged where it refused us or could not be reached.

    A request that a healthy server takes and never finishes is a wrong answer: users would wait as well.
    """
    if isinstance(result, Reply):
        return Outcome(job, result, right=not job.question.misses(result) and not result.nonfinite)
    if isinstance(result, Refusal):
        return Outcome(job, result, right=False if result.status >= 500 or result.says_nonfinite else None)
    dead = isinstance(result, NoAnswer) and not _alive(service)
    hung = isinstance(result, NoAnswer) and result.reason == "timeout" and not dead
    return Outcome(job, result, right=False if hung else None, dead=dead)


def _alive(service: Service) -> bool:
    try:
        return service.health() is not False
    except CouldNotJudge:
        return False


def _hopeless(outcomes: Sequence[Outcome]) -> bool:
    hangs = sum(isinstance(outcome.result, NoAnswer) and outcome.right is False for outcome in outcomes)
    nothing_right = not any(outcome.right for outcome in outcomes)
    return outcomes[-1].dead or hangs >= HANGS or (nothing_right and len(outcomes) >= HOPELESS)


def most_telling(wrong: Sequence[Outcome]) -> Outcome:
    """The first wrong reply; without one the first HTTP error, and else the first hang."""
    return min(wrong, key=lambda outcome: [Reply, Refusal, NoAnswer].index(type(outcome.result)))


def explain(service: Service, outcome: Outcome) -> tuple[Diagnosis, tuple[Evidence, ...]]:
    """How an answer is wrong. A wrong reply is asked for again with logprobs, and its token ids are read back."""
    question, result = outcome.job.question, outcome.result
    shown = sent_and_received(service, outcome)
    if isinstance(result, Refusal):
        return diagnose_status(result.status, result.message, nonfinite=result.says_nonfinite), shown
    if isinstance(result, CouldNotJudge):
        return diagnose_hang(str(result)), shown
    again = _ask_with_logprobs(service, question)
    diagnosis = diagnose(question.expected, _observed(service, question, result, again), prompt=question.prompt)
    if not question.expected:
        diagnosis = replace(diagnosis, sentence=f"{diagnosis.sentence}; {question.misses(result)}")
    return diagnosis, (*shown, answer_evidence("the same request with logprobs", again))


def sent_and_received(service: Service, outcome: Outcome) -> tuple[Evidence, Evidence]:
    """The request and the answer of one outcome."""
    question = outcome.job.question
    body: dict[str, object] = {"messages": list(question.messages), "max_tokens": question.max_tokens}
    body |= question.options
    if outcome.job.streamed:
        body["stream"] = True
    return request_evidence(service, "chat completion", body), answer_evidence("what came back", outcome.result)


def _ask_with_logprobs(service: Service, question: Question) -> Answer | CouldNotJudge:
    """The same request with logprobs, which a server that computes NaN can't put into JSON."""
    try:
        return service.chat(
            question.messages,
            max_tokens=question.max_tokens,
            logprobs=True,
            top_logprobs=5,
            **question.options,
        )
    except CouldNotJudge as error:
        return error


def _observed(service: Service, question: Question, reply: Reply, again: Answer | CouldNotJudge) -> Observed:
    """A wrong reply with what else is known about it. `again` is the same request with logprobs."""
    proof = ""
    if isinstance(again, Refusal) and again.says_nonfinite:
        proof = f"the same request with logprobs is answered HTTP {again.status}, {again.message!r}"
    elif reply.nonfinite or (isinstance(again, Reply) and again.nonfinite):
        proof = "the answer itself holds NaN or infinite numbers"
    # Logprobs of an answer that was right the second time say nothing about the one that was wrong.
    positions = (again.logprobs or ()) if isinstance(again, Reply) and question.misses(again) else ()
    return Observed(
        text=reply.text,
        reasoning=reply.reasoning,
        finish_reason=reply.finish_reason,
        token_ids=reply.token_ids,
        completion_tokens=reply.usage.completion_tokens,
        detokenized=_detokenized(service, reply),
        nan_proof=proof,
        chosen_logprobs=[position.logprob for position in positions if position.logprob is not None],
        top_logprobs=[list(position.top.values()) for position in positions],
    )


def _detokenized(service: Service, reply: Reply) -> str | None:
    try:
        return service.detokenize(reply.token_ids) if reply.token_ids else None
    except CouldNotJudge:
        return None
