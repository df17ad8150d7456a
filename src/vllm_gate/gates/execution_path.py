"""The execution path: which dtypes, kernels and fusions the server says it runs, held against what was approved.

It is no gate with a number of its own: it reads the startup log that gate 1 waited for. An unexplained kernel
fallback, or a dtype path that nobody approved, is the omen of the next silent fault, even when the output looks fine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_gate.advisories.coverage import uncovered
from vllm_gate.advisories.matching import known_faults
from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Evidence, EvidenceKind, Finding, Location
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.interface import Check, Context
from vllm_gate.path import lock as locks
from vllm_gate.path.contradictions import contradictions
from vllm_gate.path.diff import DTYPE_PATH, IDENTITY, Change, Severity, changes, gone, unapproved
from vllm_gate.path.matrix import compare
from vllm_gate.path.record import ExecutionPath, State, read_log

CHECK_NAMES = ("kernel_fallback", "dtype_path", "kernel_path", "matrix", "contradictions", "known_fault", "coverage")


class ExecutionPathGate:
    """See the module. `needs_log`: without a startup log there is nothing to read."""

    key = "execution_path"
    number = 0
    title = "execution path"
    needs_log = True

    def checks(self, plan: Plan) -> Sequence[Check]:
        """One check that reads the log once and answers every question about it."""
        return (Check("kernel_fallback", _ask),)

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        """None."""
        return ()


def _ask(context: Context) -> Iterator[Finding]:
    plan = context.plan
    record = read_log(context.log.lines() if context.log else ())
    if not any(seen.state is State.OBSERVED for seen in record.fields.values()):
        yield _nothing_read(plan)
        return
    context.facts["observed"] = {
        name: seen.value for name, seen in record.fields.items() if seen.state is State.OBSERVED
    }
    context.facts["absent"] = [name for name, seen in record.fields.items() if seen.state is State.ABSENT]
    context.facts["fallbacks"] = [fallback.id for fallback in record.fallbacks]
    lock = locks.parse(plan.lock, plan.lock_path) if plan.lock else None
    yield _fallbacks(plan, record, lock, context)
    yield from _against_lock(plan, record, lock)
    yield from _matrix(plan, record)
    yield _contradictions(plan, record)
    yield _known_faults(plan, record)
    yield _coverage(plan, record)


def _nothing_read(plan: Plan) -> Finding:
    log = plan.services["under_test"].log
    return Finding(
        check="kernel_fallback",
        verdict=Verdict.INCONCLUSIVE,
        message=f"{log or 'no log'} says nothing of the execution path, so fallbacks and dtypes can't be held against "
        "what was approved",
        location=plan.where("service.under_test.log"),
        remedy="Point `log` of [service.under_test] at the whole startup log of this server (or docker:NAME).",
    )


def _fallbacks(plan: Plan, record: ExecutionPath, lock: locks.Lock | None, context: Context) -> Finding:
    """Every fallback needs an approval that still holds."""
    open_ones = unapproved(record, lock, context.today)
    if not open_ones:
        known = f"; {len(record.fallbacks)} approved" if record.fallbacks else ""
        better = gone(record, lock) if lock else ()
        return Finding(
            check="kernel_fallback",
            verdict=Verdict.PASS,
            message=f"no unapproved kernel fallback{known}",
            warning=f"approved fallbacks do not happen any more: {'; '.join(better)}" if better else "",
        )
    first = open_ones[0]
    expired = lock is not None and lock.fallback(first.id) is not None
    why = "its approval has expired" if expired else "nobody approved it"
    more = f" (and {len(open_ones) - 1} more)" if len(open_ones) > 1 else ""
    return Finding(
        check="kernel_fallback",
        verdict=Verdict.FAIL,
        symptom="kernel_fallback",
        message=f"the server gave up a kernel for another, and {why}: {first.id}{more}",
        measured=float(len(open_ones)),
        threshold=0.0,
        unit="unapproved fallbacks",
        evidence=tuple(
            Evidence(EvidenceKind.LOG, f"line {fallback.line_number}", fallback.line) for fallback in open_ones[:5]
        ),
        location=_log_line(plan, first.line_number),
        remedy=f"Find out why. If it is as it should be, approve it: {_approve_command(plan)}",
    )


def _against_lock(plan: Plan, record: ExecutionPath, lock: locks.Lock | None) -> Iterator[Finding]:
    """Dtypes apart from the rest: a change of number format is the rollback condition."""
    if lock is None:
        yield Finding(
            check="dtype_path",
            verdict=Verdict.PASS,
            message=_dtypes(record),
            warning=f"nothing was approved yet, so no change is seen; {_approve_command(plan)} writes {plan.lock_path}",
        )
        return
    found = changes(record, lock)
    yield _changed(plan, "dtype_path", [change for change in found if change.field in DTYPE_PATH], _dtypes(record))
    others = [change for change in found if change.field not in DTYPE_PATH | IDENTITY]
    told = "; ".join(str(change) for change in found if change.field in IDENTITY)
    finding = _changed(plan, "kernel_path", others, "kernels, backends and fusions are the approved ones")
    if finding.verdict is Verdict.PASS and told:
        finding = Finding(check="kernel_path", verdict=Verdict.PASS, message=finding.message, warning=told)
    yield finding


def _changed(plan: Plan, check: str, found: Sequence[Change], fine: str) -> Finding:
    if not found:
        return Finding(check=check, verdict=Verdict.PASS, message=fine)
    worst = next((change for change in found if change.severity is Severity.WORSE), found[0])
    what = "number formats" if check == "dtype_path" else "kernels, backends or fusions"
    return Finding(
        check=check,
        verdict=Verdict.FAIL,
        symptom="path_changed",
        message=f"{what} changed without approval: {'; '.join(str(change) for change in found)}",
        measured=worst.observed or "absent",
        threshold=worst.approved or "absent",
        evidence=tuple(
            Evidence(EvidenceKind.LOG, f"{change.field}, line {change.line_number}", change.line)
            for change in found[:5]
            if change.line
        ),
        location=_log_line(plan, worst.line_number) if worst.line_number else Location(plan.lock_path, 1),
        remedy=f"If the change is wanted, approve it in a pull request: {_approve_command(plan)}",
    )


def _matrix(plan: Plan, record: ExecutionPath) -> Iterator[Finding]:
    if not plan.matrix:
        return
    compared = compare(plan.matrix, record)
    wrong = [one for one in compared if not one.agrees]
    unseen = [one.key for one in compared if one.observed is None]
    if wrong:
        yield Finding(
            check="matrix",
            verdict=Verdict.FAIL,
            symptom="not_as_declared",
            message="the server is not what [matrix] declares: "
            + "; ".join(f"{one.key} is {one.observed}, declared {one.declared}" for one in wrong),
            measured=wrong[0].observed,
            threshold=wrong[0].declared,
            location=plan.where(f"matrix.{wrong[0].key}"),
            remedy="Start the server as declared, or correct [matrix].",
        )
        return
    agreeing = len(compared) - len(unseen)
    yield Finding(
        check="matrix",
        verdict=Verdict.PASS,
        message=f"{agreeing} of {len(compared)} declared facts are seen in the log, as declared",
        warning=f"the log does not say: {', '.join(unseen)}" if unseen else "",
    )


def _contradictions(plan: Plan, record: ExecutionPath) -> Finding:
    found = contradictions(record)
    if not found:
        return Finding(check="contradictions", verdict=Verdict.PASS, message="the log does not contradict itself")
    return Finding(
        check="contradictions",
        verdict=Verdict.FAIL,
        symptom=found[0].name,
        message="; ".join(rule.sentence for rule in found),
        location=_log_line(plan, 1),
        remedy="Do not trust this server's numbers before the contradiction is understood; see the lines of the log.",
    )


def _known_faults(plan: Plan, record: ExecutionPath) -> Finding:
    found = known_faults(plan.matrix, record, plan.services["under_test"].model)
    if not found:
        return Finding(check="known_fault", verdict=Verdict.PASS, message="no known fault of this combination")
    return Finding(
        check="known_fault",
        verdict=Verdict.PASS,
        message=f"{len(found)} known faults concern this combination",
        warning="; ".join(f"{one.title} ({one.reference}): {one.remedy}" for one in found[:3]),
    )


def _coverage(plan: Plan, record: ExecutionPath) -> Finding:
    missing = uncovered(plan.matrix, record, _asked_gates(plan))
    return Finding(
        check="coverage",
        verdict=Verdict.PASS,
        message="what is deployed is what is gated" if not missing else "the gates do not cover everything deployed",
        warning="; ".join(missing),
    )


def _asked_gates(plan: Plan) -> frozenset[str]:
    gates = plan.gates
    asked = {
        "numerical": gates.numerical.enabled,
        "tp_variants": gates.numerical.enabled and bool(gates.numerical.compare_tp_variants),
        "golden": gates.golden_prompt.enabled,
        "tools": gates.long_context.enabled and gates.long_context.tool_call_schema_check,
        "prefix_cache": gates.long_context.enabled and gates.long_context.prefix_cache_check,
        "long_context": gates.long_context.enabled,
        "log": bool(plan.services["under_test"].log),
    }
    return frozenset(name for name, enabled in asked.items() if enabled)


def _dtypes(record: ExecutionPath) -> str:
    names = ("dtype_activation", "quantization", "dtype_kv_cache")
    return ", ".join(f"{name} {record[name].value or 'not said'}" for name in names)


def _log_line(plan: Plan, number: int) -> Location | None:
    log = plan.services["under_test"].log
    return Location(log, max(number, 1)) if log and log != "-" and not log.startswith("docker:") else None


def _approve_command(plan: Plan) -> str:
    return f'`vllm-gate approve --log {plan.services["under_test"].log or "FILE"} --reason "…"`'
