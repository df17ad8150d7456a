"""Runs gates in order and collects what they find. Nothing a gate does can stop the others or lose a finding."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vllm_gate.app.observers import Observer
from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.report import GateResult
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import GateError, Interrupted
from vllm_gate.gates.interface import Check, Context, Gate

READINESS = "ready_endpoint"
"""The check without which no other can be asked."""
NEVER_READY = "not asked: the server never became ready"
REPORT_A_BUG = "this is a bug in vllm-gate: please report it with the text above"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which gates are asked, and why each of the others is not."""

    gates: tuple[Gate, ...]
    skipped: Mapping[str, str]
    """Gate key to reason."""


def run_gates(
    selection: Selection, context: Context, observer: Observer, now: Callable[[], float]
) -> tuple[GateResult, ...]:
    """Ask every selected gate, then the gates' closing checks; results stand in the gates' order.

    When the server never became ready, the later gates are skipped: they could only repeat that. Raises
    Interrupted, and nothing else: an error inside a check becomes that check's finding.
    """
    results: dict[str, GateResult] = {}
    skipped = dict(selection.skipped)
    for gate in selection.gates:
        if gate.key in skipped:
            results[gate.key] = _result(gate, skipped=skipped[gate.key])
            continue
        results[gate.key] = _run(gate, context, observer, now)
        if _never_ready(results[gate.key]):
            skipped |= {later.key: NEVER_READY for later in selection.gates if later.key not in results | skipped}
    asked = [gate for gate in selection.gates if gate.key not in skipped]
    for gate in asked[:-1]:
        if gate.closing_checks(context.plan):
            results[gate.key] = _close(gate, results[gate.key], context, observer, now)
    return tuple(results.values())


def _run(gate: Gate, context: Context, observer: Observer, now: Callable[[], float]) -> GateResult:
    observer.gate_started(gate)
    started = now()
    context.facts.clear()
    findings = tuple(_ask_all(gate, gate.checks(context.plan), context, observer))
    result = _result(gate, findings=findings, duration_s=now() - started, facts=dict(context.facts))
    observer.gate_finished(result)
    return result


def _close(
    gate: Gate, result: GateResult, context: Context, observer: Observer, now: Callable[[], float]
) -> GateResult:
    """The gate's result with its closing checks, told again as a whole."""
    started = now()
    findings = tuple(_ask_all(gate, gate.closing_checks(context.plan), context, observer))
    whole = replace(
        result, findings=result.findings + findings, duration_s=round(result.duration_s + now() - started, 3)
    )
    observer.gate_finished(whole)
    return whole


def _never_ready(result: GateResult) -> bool:
    return any(finding.check == READINESS and finding.verdict is not Verdict.PASS for finding in result.findings)


def _ask_all(gate: Gate, checks: Sequence[Check], context: Context, observer: Observer) -> Iterator[Finding]:
    own = replace(context, progress=_progress(gate, observer))
    for check in checks:
        for finding in _ask(check, own):
            observer.found(gate, finding)
            yield finding


def _ask(check: Check, context: Context) -> Iterator[Finding]:
    """A check's findings. One that raises keeps the findings it gave, and its place, as an error."""
    try:
        yield from check.ask(context)
    except Interrupted:
        raise
    except GateError as error:
        yield Finding(check=check.name, verdict=Verdict.ERROR, message=str(error), remedy=error.hint)
    except Exception as error:
        yield Finding(
            check=check.name,
            verdict=Verdict.ERROR,
            symptom="bug",
            message=f"the check itself broke: {type(error).__name__}: {error}",
            evidence=(Evidence(EvidenceKind.NOTE, "details", "".join(traceback.format_exception(error)[-6:])),),
            remedy=REPORT_A_BUG,
        )


def _progress(gate: Gate, observer: Observer) -> Callable[..., None]:
    def tell(message: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        observer.progress(gate, message, done, total, unit)

    return tell


def _result(
    gate: Gate,
    *,
    findings: tuple[Finding, ...] = (),
    skipped: str = "",
    duration_s: float = 0.0,
    facts: Mapping[str, object] | None = None,
) -> GateResult:
    return GateResult(
        gate=gate.key,
        number=gate.number,
        title=gate.title,
        findings=findings,
        skipped=skipped,
        duration_s=round(duration_s, 3),
        facts=facts or {},
    )
