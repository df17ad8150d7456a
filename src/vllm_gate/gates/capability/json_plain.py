"""JSON on a plain instruction: nothing holds the model to the schema, so this is its own ability.

No threshold is set for that. With a baseline the release must not be clearly worse; without one the rate is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import answer_evidence, ask_all, request_evidence
from vllm_gate.gates.capability.json_cases import JsonCase, corpus, is_valid, questions
from vllm_gate.gates.capability.json_output import Wrong, ask, said, sorted_answer, told, unanswered
from vllm_gate.gates.capability.known import Known, baseline_of
from vllm_gate.gates.capability.paired import Pair, Paired, ask_both
from vllm_gate.gates.interface import Context
from vllm_gate.judge.buckets import VALID
from vllm_gate.judge.rates import rate
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Reply

_TOGETHER = 4
"""Most questions to both sides between two looks at the result."""


def ask_plain_json(context: Context, known: Known) -> Iterator[Finding]:
    """Each schema once, by words alone."""
    settings, room = context.plan.gates.long_context, known.room(context)
    asked = questions(min(len(corpus()), settings.max_requests))
    buckets: Counter[str] = Counter()
    wrong: list[Wrong] = []
    answers: list[dict[str, object]] = []

    def seen(index: int, answer: Answer | CouldNotJudge) -> bool:
        case = asked[index]
        bucket, detail = case.plain_bucket(answer) if isinstance(answer, Reply) else ("not_answered", said(answer))
        buckets[bucket] += 1
        answers.append(sorted_answer(case, answer, bucket))
        if bucket != VALID:
            wrong.append(Wrong(case, answer, bucket, detail))
        context.progress("JSON by words alone", buckets.total(), len(asked), "answers")
        return buckets["not_answered"] >= 3

    ask_all([partial(ask, context.under_test, case.plain_body(room)) for case in asked], settings.concurrency, seen)
    context.facts["json_plain"] = dict(buckets)
    context.facts["json_plain_answers"] = answers
    yield (
        unanswered("json_plain", buckets, wrong) if buckets["not_answered"] else _judged(context, buckets, wrong, room)
    )


def _judged(context: Context, buckets: Counter[str], wrong: Sequence[Wrong], room: int) -> Finding:
    observed = rate(buckets[VALID], buckets.total())
    compared, before = _against_baseline(context, wrong, room) if wrong else (None, "")
    what = f"{observed.successes} of {observed.trials} answers are valid JSON where only words ask for it"
    finding = partial(
        Finding,
        check="json_plain",
        measured=observed.value,
        unit="valid JSON answers",
        samples=observed.trials,
        interval=observed.interval,
    )
    if compared is None or compared.verdict is Verdict.PASS:
        return finding(verdict=Verdict.PASS, message=what, warning=f"{told(buckets)}; {before}" if wrong else "")
    first = wrong[0]
    return finding(
        verdict=compared.verdict,
        symptom=f"json_{first.bucket}",
        message=f"{what} ({told(buckets)}); {before}: {first.detail}",
        evidence=(
            request_evidence(context.under_test, first.case.id, first.case.plain_body(room)),
            answer_evidence("what came back", first.answer),
        ),
        location=context.plan.where("gate_config.gate_4_long_context.json_parse_rate_threshold"),
        remedy="The model follows instructions less well than before: suspect quantisation, kernels, the chat "
        "template; gate 2 measures by how much its numbers moved.",
    )


def _against_baseline(context: Context, wrong: Sequence[Wrong], room: int) -> tuple[Paired | None, str]:
    """How the two compare on further questions about the schemas that the release alone got wrong."""
    baseline = baseline_of(context)
    if baseline is None:
        return None, "no baseline tells whether this is worse than before"
    before = [_right(baseline, one.case, room) for one in wrong]
    if None in before:
        return None, "the baseline could not be asked"
    alone = [one.case for one, right in zip(wrong, before, strict=True) if right]
    if not alone:
        return None, "the baseline gets the same ones wrong"
    topics = iter(range(1, 100))

    def more() -> list[Pair]:
        topic = next(topics)
        cases = [case.about(topic) for case in alone[:_TOGETHER]]
        return [(_right(context.under_test, case, room), _right(baseline, case, room)) for case in cases]

    compared = ask_both(more)
    return compared, str(compared)


def _right(service: Service, case: JsonCase, room: int) -> bool | None:
    answer = ask(service, case.plain_body(room))
    return is_valid(case.plain_bucket(answer)) if isinstance(answer, Reply) else None
