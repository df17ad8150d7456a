"""Gate 5: a sample of real traffic, put to the candidate and to the baseline; nothing goes back to a user.

Decided by e-processes after every pair: a broken candidate is stopped within a few requests, a healthy one passes as
soon as its limits are proven, and anything else says how much more traffic would be needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Finding, Location
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import no_token, one_token
from vllm_gate.gates.canary.findings import facts_of, findings_of
from vllm_gate.gates.canary.means import TrafficSource
from vllm_gate.gates.canary.pairing import Pairing
from vllm_gate.gates.canary.running import Canary
from vllm_gate.gates.interface import Check, Context
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Refusal
from vllm_gate.traffic.redaction import redacted, shape

CHECK_NAMES = ("traffic", "task_success", "degeneration", "transport")

_KEY = "gate_config.gate_5_shadow_canary"


class ShadowCanary:
    """See the module."""

    key = "gate_5_shadow_canary"
    number = 5
    title = "shadow canary"

    def checks(self, plan: Plan) -> Sequence[Check]:
        """See `Gate`. One check, which answers all questions: they share their requests."""
        return (Check("traffic", _shadow),)

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        """See `Gate`."""
        return ()


def _shadow(context: Context) -> Iterator[Finding]:
    plan, traffic = context.plan, context.means.traffic
    recorded = plan.traffic.answers == "recorded"
    baseline = None if recorded else context.services.get("baseline")
    if traffic is None or (baseline is None and not recorded):
        yield _nothing_to_do(context, traffic)
        return
    for service in filter(None, (context.under_test, baseline)):
        if problem := _not_ready(service):
            yield problem
            return
    pairing = _pairing(context, baseline)
    ran = Canary(
        settings=plan.gates.shadow_canary,
        means=context.means,
        traffic=traffic,
        ask=pairing.ask,
        salt=plan.traffic.salt,
        recorded=recorded,
        now=context.now,
        progress=context.progress,
    ).run()
    context.facts["canary"] = facts_of(ran, traffic.tally)
    yield from findings_of(ran, traffic, plan.gates.shadow_canary.traffic_ratio, places(plan))


def places(plan: Plan) -> dict[str, Location | None]:
    """Where the limit of each question stands."""
    return {
        "task_success": plan.where(f"{_KEY}.task_success_drop_threshold"),
        "degeneration": plan.where(f"{_KEY}.degeneration_rate_threshold"),
    }


def _pairing(context: Context, baseline: Service | None) -> Pairing:
    settings, kept = context.plan.gates.shadow_canary, context.plan.traffic
    return Pairing(
        candidate=context.under_test,
        baseline=baseline,
        max_tokens=settings.max_tokens,
        validators=settings.validators,
        run_command=context.means.run_command,
        kept=partial(redacted, patterns=kept.redact) if kept.keep_text else shape,
        sleep=context.sleep,
    )


def _nothing_to_do(context: Context, traffic: TrafficSource | None) -> Finding:
    if traffic is None:
        message = "there is no traffic to replay"
        remedy = 'Name a traffic log: log = "traffic.jsonl" under [traffic] in config.toml, or --traffic FILE.'
    else:
        message = "there is nothing to compare the candidate's answers with"
        remedy = (
            'Add [service.baseline] to config.toml, or set answers = "recorded" under [traffic] if the log holds them.'
        )
    where = context.plan.where(_KEY)
    return Finding(
        check="traffic",
        verdict=Verdict.INCONCLUSIVE,
        symptom="no_traffic" if traffic is None else "no_baseline",
        message=message,
        remedy=remedy,
        location=where,
    )


def _not_ready(service: Service) -> Finding | None:
    """Why a service can't be asked at all. Otherwise the same would be found out request by request."""
    answer = one_token(service)
    refused = isinstance(answer, Refusal) and answer.status in (401, 403, 404)
    if not refused and not isinstance(answer, CouldNotJudge):
        return None
    found = no_token("traffic", answer)
    return Finding(
        check="traffic",
        verdict=Verdict.ERROR,
        symptom=found.symptom,
        message=f"{service.name}: {found.message}",
        evidence=found.evidence,
        remedy=found.remedy,
    )
