"""Answers in JSON: does the server hold the model to a schema, and is what comes out whole?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any

from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import answer_evidence, ask_all, request_evidence
from vllm_gate.gates.interface import Context
from vllm_gate.judge.buckets import MISMATCH, NOT_JSON, VALID, json_bucket
from vllm_gate.judge.rates import lower_bound, rate, trials_to_certify
from vllm_gate.server.reply import Answer, Refusal, Reply

_MAX_TOKENS = 400
_PROOF = {"type": "object", "properties": {"mark": {"const": "zq-7f3a"}}, "required": ["mark"]}
"""A value that no model says by itself: an answer that has it proves that the parameter is honoured."""


def corpus() -> tuple[Mapping[str, Any], ...]:
    """The shipped schemas: id, prompt, schema."""
    text = files("vllm_gate.gates.capability").joinpath("schemas.json").read_text(encoding="utf-8")
    return tuple(json.loads(text))


def ask_json(context: Context) -> Iterator[Finding]:
    """Honoured at all; then the rate of whole and valid answers over the corpus."""
    honoured = _honoured(context)
    if honoured is not None:
        yield honoured
        return
    yield _rate(context)


def _request(prompt: str, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}
    return {"messages": [{"role": "user", "content": prompt}], "max_tokens": _MAX_TOKENS, "response_format": wanted}


def _honoured(context: Context) -> Finding | None:
    """None when the schema is honoured; vLLM drops unknown fields silently, so HTTP 200 proves nothing."""
    request = _request("Say hello.", "proof", _PROOF)
    answer = _ask(context, request)
    if isinstance(answer, Reply):
        bucket, detail = json_bucket(answer.text, _PROOF, answer.finish_reason)
        if bucket not in (MISMATCH, NOT_JSON):
            return None
        verdict, symptom = Verdict.FAIL, "schema_ignored"
        message = f"response_format is accepted and ignored: {detail}"
    else:
        verdict, symptom = (Verdict.ERROR, "no_answer")
        message = f"a request with a JSON schema is not answered: {_said(answer)}"
    return Finding(
        check="json",
        verdict=verdict,
        symptom=symptom,
        message=message,
        evidence=(
            request_evidence(context.under_test, "chat completion", request),
            answer_evidence("what came back", answer),
        ),
        location=context.plan.where("gate_config.gate_4_long_context.json_parse_rate_threshold"),
        remedy="Use a vLLM with structured outputs for this model; `guided_json` was removed in 0.12, response_format "
        "is what works.",
    )


def _rate(context: Context) -> Finding:
    settings = context.plan.gates.long_context
    cases = corpus()
    threshold, certified = settings.json_parse_rate_threshold, settings.rate_verdict == "certified"
    wanted = trials_to_certify(threshold) if certified and threshold < 1 else 2 * len(cases)
    asked = [cases[index % len(cases)] for index in range(min(wanted, settings.max_requests))]
    buckets: Counter[str] = Counter()
    worst: list[tuple[Mapping[str, Any], Answer | CouldNotJudge, str]] = []

    def seen(index: int, answer: Answer | CouldNotJudge) -> bool:
        case = asked[index]
        bucket, detail = ("not_answered", _said(answer))
        if isinstance(answer, Reply):
            bucket, detail = json_bucket(answer.text, case["schema"], answer.finish_reason)
        buckets[bucket] += 1
        if bucket != VALID:
            worst.append((case, answer, detail))
        context.progress("JSON answers", buckets.total(), len(asked), "answers")
        return buckets["not_answered"] >= 3

    requests = [_request(case["prompt"], case["id"], case["schema"]) for case in asked]
    ask_all([partial(_ask, context, request) for request in requests], settings.concurrency, seen)
    context.facts["json"] = dict(buckets)
    if buckets["not_answered"]:
        return _unanswered(buckets, worst)
    return _concluded(context, buckets, worst, wanted)


def _concluded(
    context: Context,
    buckets: Counter[str],
    worst: Sequence[tuple[Mapping[str, Any], Answer | CouldNotJudge, str]],
    wanted: int,
) -> Finding:
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
        symptom = next(bucket for bucket, _ in buckets.most_common() if bucket != VALID)
        case, answer, detail = worst[0]
        sorted_out = ", ".join(f"{count} {bucket}" for bucket, count in buckets.most_common())
        return finding(
            verdict=Verdict.FAIL,
            symptom=f"json_{symptom}",
            message=f"{observed.successes} of {observed.trials} JSON answers are valid ({sorted_out}): {detail}",
            evidence=(
                request_evidence(context.under_test, case["id"], _request(case["prompt"], case["id"], case["schema"])),
                answer_evidence("what came back", answer),
            ),
            remedy="Compare with the release before; suspect the structured-output backend, the tokenizer, max_tokens.",
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


def _unanswered(
    buckets: Counter[str], worst: Sequence[tuple[Mapping[str, Any], Answer | CouldNotJudge, str]]
) -> Finding:
    _, answer, detail = next(one for one in worst if not isinstance(one[1], Reply))
    return Finding(
        check="json",
        verdict=Verdict.ERROR,
        message=f"{buckets['not_answered']} of {buckets.total()} requests for JSON were not answered: {detail}",
        evidence=(answer_evidence("what came back", answer),),
    )


def _ask(context: Context, request: Mapping[str, Any]) -> Answer | CouldNotJudge:
    try:
        return context.under_test.chat(**request)
    except CouldNotJudge as error:
        return error


def _said(answer: Answer | CouldNotJudge) -> str:
    return f"HTTP {answer.status}, {answer.message}" if isinstance(answer, Refusal) else str(answer)
