"""Answers in JSON: does the server hold the model to a schema, and is what comes out whole?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import answer_evidence, ask_all, request_evidence
from vllm_gate.gates.capability.json_cases import PROOF, JsonCase, corpus, is_valid, questions
from vllm_gate.gates.capability.known import Known, baseline_of
from vllm_gate.gates.interface import Context
from vllm_gate.judge.buckets import MISMATCH, NOT_JSON, VALID
from vllm_gate.judge.rates import lower_bound, rate, trials_to_certify
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal, Reply

_SHOWN = 300
_COMPARED = 8
"""Most wrong answers that the baseline is asked about."""
_REFUSED = (400, 404, 422, 501)


@dataclass(frozen=True, slots=True)
class Wrong:
    """A question with an answer that is not valid, or with none."""

    case: JsonCase
    answer: Answer | CouldNotJudge
    bucket: str
    detail: str


def ask_json(context: Context, known: Known) -> Iterator[Finding]:
    """Honoured at all; then the rate of whole and valid answers over the corpus."""
    if context.plan.services["under_test"].api == "anthropic":
        message = "not asked: the Anthropic messages API has no response_format"
        yield Finding(check="json", verdict=Verdict.SKIPPED, message=message)
        return
    room = known.room(context)
    yield _not_honoured(context, room) or _rate(context, room)


def _not_honoured(context: Context, room: int) -> Finding | None:
    """None when the schema is honoured; vLLM drops unknown fields silently, so HTTP 200 proves nothing."""
    answer = ask(context.under_test, PROOF.body(room))
    if isinstance(answer, Reply):
        bucket, detail = PROOF.bucket(answer)
        if bucket not in (MISMATCH, NOT_JSON):
            return None
        verdict, symptom = Verdict.FAIL, "schema_ignored"
        message = f"response_format is accepted and ignored: {detail}"
    elif isinstance(answer, Refusal) and answer.status in _REFUSED and not answer.says_nonfinite:
        verdict, symptom = Verdict.INCONCLUSIVE, "schema_refused"
        message = f"a request with a JSON schema is refused: {said(answer)}"
    else:
        verdict, symptom = (Verdict.ERROR, "no_answer")
        message = f"a request with a JSON schema is not answered: {said(answer)}"
    return Finding(
        check="json",
        verdict=verdict,
        symptom=symptom,
        message=message,
        evidence=(
            request_evidence(context.under_test, "chat completion", PROOF.body(room)),
            answer_evidence("what came back", answer),
        ),
        location=context.plan.where("gate_config.gate_4_long_context.json_parse_rate_threshold"),
        remedy="Use a vLLM with structured outputs for this model; `guided_json` was removed in 0.12, response_format "
        "is what works.",
    )


def _rate(context: Context, room: int) -> Finding:
    settings = context.plan.gates.long_context
    threshold, certified = settings.json_parse_rate_threshold, settings.rate_verdict == "certified"
    wanted = trials_to_certify(threshold) if certified and threshold < 1 else 2 * len(corpus())
    asked = questions(min(wanted, settings.max_requests))
    buckets: Counter[str] = Counter()
    wrong: list[Wrong] = []
    answers: list[dict[str, object]] = []

    def seen(index: int, answer: Answer | CouldNotJudge) -> bool:
        case = asked[index]
        bucket, detail = case.bucket(answer) if isinstance(answer, Reply) else ("not_answered", said(answer))
        buckets[bucket] += 1
        answers.append(sorted_answer(case, answer, bucket))
        if bucket != VALID:
            wrong.append(Wrong(case, answer, bucket, detail))
        context.progress("JSON answers", buckets.total(), len(asked), "answers")
        return buckets["not_answered"] >= 3

    ask_all([partial(ask, context.under_test, case.body(room)) for case in asked], settings.concurrency, seen)
    context.facts["json"] = dict(buckets)
    context.facts["json_answers"] = answers
    if buckets["not_answered"]:
        return unanswered("json", buckets, wrong)
    return _concluded(context, buckets, wrong, wanted, room)


def _concluded(context: Context, buckets: Counter[str], wrong: Sequence[Wrong], wanted: int, room: int) -> Finding:
    settings = context.plan.gates.long_context
    threshold = settings.json_parse_rate_threshold
    observed = rate(buckets[VALID], buckets.total())
    finding = partial(
        Finding,
        check="json",
        measured=observed.value,
        threshold=threshold,
        unit="valid JSON answers",
        samples=observed.trials,
        interval=observed.interval,
        location=context.plan.where("gate_config.gate_4_long_context.json_parse_rate_threshold"),
    )
    if observed.value < threshold:
        first = wrong[0]
        symptom = next(bucket for bucket, _ in buckets.most_common() if bucket != VALID)
        return finding(
            verdict=Verdict.FAIL,
            symptom=f"json_{symptom}",
            message=f"{observed.successes} of {observed.trials} JSON answers are valid ({told(buckets)}): "
            f"{first.detail}{_of_the_baseline(context, wrong, room)}",
            evidence=(
                request_evidence(context.under_test, first.case.id, first.case.body(room)),
                answer_evidence("what came back", first.answer),
            ),
            remedy="Compare with the release before; suspect the structured-output backend, the tokenizer, max_tokens. "
            "Where that one is no better, json_parse_rate_threshold asks more than the model can do.",
        )
    if settings.rate_verdict == "certified" and lower_bound(observed.successes, observed.trials) < threshold:
        return finding(
            verdict=Verdict.INCONCLUSIVE,
            message=f"{observed.trials} answers can't certify {threshold:.2%}; about {wanted} are needed",
            remedy=f"Raise gate_4_long_context.max_requests to {wanted}, or use rate_verdict = observed.",
        )
    return finding(
        verdict=Verdict.PASS, message=f"{observed.successes} of {observed.trials} JSON answers are whole and valid"
    )


def _of_the_baseline(context: Context, wrong: Sequence[Wrong], room: int) -> str:
    """What the release before makes of the same questions: the threshold decides, but this says whose fault it is."""
    baseline = baseline_of(context)
    if baseline is None:
        return ""
    asked = [one.case for one in wrong[:_COMPARED]]
    answers = [(case, ask(baseline, case.body(room))) for case in asked]
    judged = [is_valid(case.bucket(answer)) for case, answer in answers if isinstance(answer, Reply)]
    if not judged:
        return ""
    return f" (the baseline answers {sum(judged)} of {len(judged)} of the same questions validly)"


def unanswered(check: str, buckets: Counter[str], wrong: Sequence[Wrong]) -> Finding:
    """Some requests brought no answer: nothing is said of the others."""
    first = next(one for one in wrong if not isinstance(one.answer, Reply))
    return Finding(
        check=check,
        verdict=Verdict.ERROR,
        message=f"{buckets['not_answered']} of {buckets.total()} requests for JSON were not answered: {first.detail}",
        evidence=(answer_evidence("what came back", first.answer),),
    )


def sorted_answer(case: JsonCase, answer: Answer | CouldNotJudge, bucket: str) -> dict[str, object]:
    """One answer and its bucket, for a person to check."""
    reply = answer if isinstance(answer, Reply) else Reply()
    return {
        "schema": case.id,
        "sorted_as": bucket,
        "finish_reason": reply.finish_reason,
        "said": reply.text[:_SHOWN],
    }


def told(buckets: Counter[str]) -> str:
    """Buckets with their counts, in words."""
    return ", ".join(f"{count} {bucket}" for bucket, count in buckets.most_common())


def ask(service: Service, request: Mapping[str, Any]) -> Answer | CouldNotJudge:
    """One chat completion, or why there is none."""
    try:
        return service.chat(**request)
    except CouldNotJudge as error:
        return error


def said(answer: Answer | CouldNotJudge) -> str:
    """What came instead of a reply, in a clause."""
    return f"HTTP {answer.status}, {answer.message}" if isinstance(answer, Refusal) else str(answer)
