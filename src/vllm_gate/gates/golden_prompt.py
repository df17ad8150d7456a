"""Gate 3: questions whose answers were agreed beforehand, asked alone and under load, whole and streamed.

The deterministic probe is sent exactly as configured. Answers are compared after `strip()`. A wrong answer is asked
for once more with logprobs: a server that computes NaN can't put them into JSON, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.interface import Check, Context
from vllm_gate.gates.questions import (
    Outcome,
    Question,
    ask_under_all_conditions,
    explain,
    most_telling,
    probe,
    sent_and_received,
    suite,
)
from vllm_gate.judge.conditions import ONLY_STREAMING, ONLY_UNDER_LOAD, Cell, condition
from vllm_gate.judge.conditions import REMEDIES as CONDITION_REMEDIES
from vllm_gate.judge.diagnosis import diagnose_status
from vllm_gate.judge.rates import rate
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Refusal, Reply

CHECK_NAMES = ("deterministic_probe", "golden_suite")

_WHERE = {"": "", ONLY_UNDER_LOAD: ", only under load", ONLY_STREAMING: ", only when streamed"}
_TEXTS_SHOWN = 5
_CASES_EXPLAINED = 10


class GoldenPrompt:
    """See the module."""

    key = "gate_3_golden_prompt"
    number = 3
    title = "golden prompts"

    def checks(self, plan: Plan) -> Sequence[Check]:
        """See `Gate`."""
        run = _Run()
        probe_only = (Check("deterministic_probe", run.probe),)
        return (*probe_only, Check("golden_suite", run.suite)) if plan.golden_cases else probe_only

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        """The probe once more: some corruption only appears after load, and then stays."""
        return (Check("deterministic_probe", partial(_ask_probe, when=" after all other gates")),)


class _Run:
    """What the suite needs to know of the probe: NaN logits answer every prompt alike, so asking on is idle."""

    def __init__(self) -> None:
        self._nan = False

    def probe(self, context: Context) -> Iterator[Finding]:
        """The deterministic probe."""
        for finding in _ask_probe(context):
            self._nan = finding.symptom == "nan_argmax"
            yield finding

    def suite(self, context: Context) -> Iterator[Finding]:
        """The suite, unless the probe has shown that the logits are NaN."""
        if self._nan:
            message = "not asked: the probe shows NaN logits, which answer every prompt alike"
            yield Finding(check="golden_suite", verdict=Verdict.SKIPPED, message=message)
            return
        yield from _ask_suite(context)


def _ask_probe(context: Context, *, when: str = "") -> Iterator[Finding]:
    question = probe(context.plan)
    yield _conclude(context, "deterministic_probe", f"the deterministic probe{when}", _ask(context, [question]))


def _ask_suite(context: Context) -> Iterator[Finding]:
    """One finding for the suite, and when it fails one for each further case that does, at the case's own place."""
    questions = suite(context.plan)
    outcomes = _ask(context, questions)
    whole = _conclude(context, "golden_suite", f"{len(questions)} golden prompts", outcomes)
    yield whole
    if whole.verdict is Verdict.FAIL:
        yield from islice(_further_failures(context, whole, questions, outcomes), _CASES_EXPLAINED)


def _further_failures(
    context: Context, whole: Finding, questions: Sequence[Question], outcomes: Sequence[Outcome]
) -> Iterator[Finding]:
    """Each failing case but the one that already explains the whole suite's failure."""
    for question in questions:
        own = [outcome for outcome in outcomes if outcome.job.question is question]
        if question.location != whole.location and any(outcome.right is False for outcome in own):
            finding = _conclude(context, "golden_suite", f"the golden prompt {question.id!r}", own)
            if finding.verdict is Verdict.FAIL:
                yield finding


def _ask(context: Context, questions: Sequence[Question]) -> list[Outcome]:
    settings = context.plan.gates.golden_prompt
    return ask_under_all_conditions(
        context.under_test,
        questions,
        levels=settings.concurrency,
        repeats=settings.repeats,
        progress=context.progress,
    )


def _conclude(context: Context, check: str, subject: str, outcomes: Sequence[Outcome]) -> Finding:
    """One finding over all answers to one question, or to the whole suite."""
    threshold = context.plan.gates.golden_prompt.pass_rate_threshold
    judged = [outcome for outcome in outcomes if outcome.right is not None]
    wrong = [outcome for outcome in judged if not outcome.right]
    failed = bool(wrong) and 1 - len(wrong) / len(judged) < threshold
    if len(judged) < len(outcomes) and not failed:
        return _unanswered(context.under_test, check, subject, outcomes)
    observed = rate(len(judged) - len(wrong), len(judged))
    finding = partial(
        Finding,
        check=check,
        measured=observed.value,
        threshold=threshold,
        unit="pass rate",
        samples=observed.trials,
        interval=observed.interval,
    )
    right = f"{observed.successes} of {observed.trials} answers to {subject} are right"
    if not wrong:
        return finding(verdict=Verdict.PASS, message=f"{right} ({_asked_how(judged)})")
    told = most_telling(wrong)
    diagnosis, evidence = explain(context.under_test, told)
    evidence = (*evidence, _overview(judged))
    whose = f"{told.job.question.id}: " if len({outcome.job.question.id for outcome in judged}) > 1 else ""
    if not failed:
        warning = f"{len(wrong)} wrong: {whose}{diagnosis.sentence}"
        return finding(verdict=Verdict.PASS, message=right, warning=warning, evidence=evidence)
    where = condition(_cells(judged))
    count = f"{len(wrong)} of {len(judged)} answers to {subject} are wrong{_WHERE[where]}"
    return finding(
        verdict=Verdict.FAIL,
        symptom=where or diagnosis.symptom,
        message=f"{count}: {whose}{diagnosis.sentence}",
        evidence=evidence,
        location=told.job.question.location,
        remedy=" ".join(filter(None, (CONDITION_REMEDIES.get(where), diagnosis.remedy))),
    )


def _unanswered(service: Service, check: str, subject: str, outcomes: Sequence[Outcome]) -> Finding:
    """Some requests could not be judged, and the others do not fail the check by themselves."""
    first = next(outcome for outcome in outcomes if outcome.right is None)
    right = sum(outcome.right is True for outcome in outcomes)
    symptom, why, remedy = _why_unanswered(first, any(outcome.dead for outcome in outcomes))
    return Finding(
        check=check,
        verdict=Verdict.ERROR,
        symptom=symptom,
        message=f"{subject} could not be judged (right answers so far: {right}): {why}",
        evidence=sent_and_received(service, first),
        location=first.job.question.location,
        remedy=remedy,
    )


def _why_unanswered(outcome: Outcome, dead: bool) -> tuple[str, str, str]:
    """Symptom, sentence and remedy."""
    result = outcome.result
    if isinstance(result, Refusal):
        diagnosis = diagnose_status(result.status, result.message)
        return diagnosis.symptom, diagnosis.sentence, diagnosis.remedy
    if dead:
        return (
            "server_died",
            f"the server does not answer any more: {result}",
            "Read the end of the server's log: a server that dies of a few requests is not ready for users.",
        )
    return "no_answer", str(result), result.hint if isinstance(result, CouldNotJudge) else ""


def _cells(judged: Iterable[Outcome]) -> list[Cell]:
    asked: Counter[tuple[int, bool]] = Counter()
    right: Counter[tuple[int, bool]] = Counter()
    for outcome in judged:
        place = (outcome.job.concurrency, outcome.job.streamed)
        asked[place] += 1
        right[place] += outcome.right is True
    return [Cell(*place, right[place], asked[place]) for place in sorted(asked)]


def _overview(judged: Sequence[Outcome]) -> Evidence:
    """Which conditions were right, and which wrong texts came how often."""
    wrong = [outcome for outcome in judged if not outcome.right]
    texts = Counter(outcome.result.text for outcome in wrong if isinstance(outcome.result, Reply))
    lines = [str(cell) for cell in _cells(judged)]
    lines += [f"{times} × {text[:100]!r}" for text, times in texts.most_common(_TEXTS_SHOWN)]
    lines.append("wrong: " + ", ".join(sorted({outcome.job.question.id for outcome in wrong})))
    return Evidence(EvidenceKind.NOTE, "all answers", "\n".join(lines))


def _asked_how(judged: Sequence[Outcome]) -> str:
    levels = sorted({outcome.job.concurrency for outcome in judged})
    return f"{' and '.join(map(str, levels))} at a time, whole and streamed"
