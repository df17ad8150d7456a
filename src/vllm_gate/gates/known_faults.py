"""Public reports of faults that this release may have: by what is declared, and by what the server says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_gate.advisories.known import Advisory
from vllm_gate.advisories.matching import known_faults
from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.interface import Context
from vllm_gate.path.record import ExecutionPath

CHECK = "known_fault"
_NOTHING = ExecutionPath(fields={})
_SHOWN = 3


def before_load(context: Context) -> Iterator[Finding]:
    """What is known of the combination that `[matrix]` declares, told before the server is even up."""
    plan = context.plan
    if found := _declared(plan):
        yield Finding(
            check=CHECK,
            verdict=Verdict.PASS,
            message=f"[matrix] declares a combination with {len(found)} known faults",
            warning=_told(found),
            location=plan.where("matrix"),
            remedy=found[0].remedy,
        )


def after_load(plan: Plan, record: ExecutionPath) -> Finding:
    """What the server itself shows beyond that, since only it tells its backends and fusions."""
    model = plan.services["under_test"].model
    declared = _declared(plan)
    more = [fault for fault in known_faults(plan.matrix, record, model) if fault not in declared]
    also = f"; {len(declared)} more by [matrix] alone" if declared else ""
    if not more:
        return Finding(check=CHECK, verdict=Verdict.PASS, message=f"no known fault of the path that is seen{also}")
    return Finding(
        check=CHECK,
        verdict=Verdict.PASS,
        message=f"{len(more)} known faults concern the path that is seen{also}",
        warning=_told(more),
    )


def _declared(plan: Plan) -> tuple[Advisory, ...]:
    return known_faults(plan.matrix, _NOTHING, plan.services["under_test"].model)


def _told(faults: Sequence[Advisory]) -> str:
    """The certain ones first, and how many are left out."""
    first = sorted(faults, key=lambda fault: not fault.certain)[:_SHOWN]
    rest = len(faults) - len(first)
    sentences = [f"{fault.title} ({fault.reference}): {fault.remedy}" for fault in first]
    return "; ".join([*sentences, *([f"and {rest} more"] if rest else [])])
