"""The execution path: which dtypes, kernels and fusions the server says it runs, held against what was approved.

It is no gate with a number of its own: it reads the startup log that gate 1 waited for. An unexplained kernel
fallback, or a dtype path that nobody approved, is the omen of the next silent fault, even when the output looks fine.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from vllm_gate.advisories.coverage import uncovered
from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Evidence, EvidenceKind, Finding, Location
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import NoAnswer, UnusableAnswer
from vllm_gate.gates.asking import one_token
from vllm_gate.gates.interface import Check, Context
from vllm_gate.gates.known_faults import after_load
from vllm_gate.path import lock as locks
from vllm_gate.path.checkpoint import read_checkpoint
from vllm_gate.path.contradictions import contradictions
from vllm_gate.path.diff import (
    DTYPE_PATH,
    IDENTITY,
    Change,
    Severity,
    changes,
    explained_anew,
    gone,
    unapproved,
    unapproved_contradictions,
)
from vllm_gate.path.fallbacks import Fallback
from vllm_gate.path.matrix import compare
from vllm_gate.path.record import ExecutionPath, State, read_chunks
from vllm_gate.path.sources import Reported, from_fingerprint, from_server_info, from_version, merge
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Reply

T = TypeVar("T")

CHECK_NAMES = ("kernel_fallback", "dtype_path", "kernel_path", "matrix", "contradictions", "known_fault", "coverage")
_CONDITIONS = ("unexplained_kernel_fallback_detected", "dtype_path_changed_without_approval")
"""Rollback conditions that only a startup log can raise."""


class ExecutionPathGate:
    """See the module. Without a startup log it still knows the declared combination's faults and gaps."""

    key = "execution_path"
    number = 0
    title = "execution path"

    def checks(self, plan: Plan) -> Sequence[Check]:
        """One check that reads the log once and answers every question about it."""
        return (Check("kernel_fallback", _ask),)

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        """None."""
        return ()


def _ask(context: Context) -> Iterator[Finding]:
    plan = context.plan
    record = _record(context)
    lock = locks.parse(plan.lock, plan.lock_path) if plan.lock else None
    context.facts.update(_facts(record, lock))
    if context.log is None and lock is None:
        yield _no_log(plan)
    else:
        yield _fallbacks(plan, record, lock, context.today)
        yield from _against_lock(plan, record, lock)
        yield _contradictions(plan, record, lock, context.today)
    yield from _matrix(plan, record)
    yield after_load(plan, record)
    yield _coverage(plan, record)


def _record(context: Context) -> ExecutionPath:
    """The log's record, completed by what the server answers and what the checkpoint's headers say.

    The order is that of trust: of two sources that tell a field the log leaves open, the first one counts.
    """
    record = read_chunks(context.log.chunks() if context.log else ())
    reported = (
        [_told(service.version, from_version), _told(service.server_info, from_server_info), _signed(service)]
        if (service := context.services.get("under_test"))
        else []
    )
    model = record["model"].value or context.plan.services["under_test"].model
    return merge(record, [*reported, read_checkpoint(context.checkpoint(model))])


def _told(ask: Callable[[], T], read: Callable[[T | None], Reported]) -> Reported:
    """A gateway has no such endpoint; whether the server answers at all is gate 1's question."""
    try:
        return read(ask())
    except (NoAnswer, UnusableAnswer):
        return read(None)


def _signed(service: Service) -> Reported:
    """What vLLM writes of itself into each answer: the one source that is left behind a gateway."""
    answer = one_token(service)
    return from_fingerprint(answer.system_fingerprint if isinstance(answer, Reply) else "")


def _facts(record: ExecutionPath, lock: locks.Lock | None) -> dict[str, object]:
    seen = {name: one for name, one in record.fields.items() if one.state is State.OBSERVED}
    return {
        "observed": {name: one.value for name, one in seen.items()},
        "sources": {name: one.source for name, one in seen.items() if one.source != "log"},
        "absent": [name for name, one in record.fields.items() if one.state is State.ABSENT],
        "fallbacks": [fallback.id for fallback in record.fallbacks],
        "changes": [str(change) for change in changes(record, lock)] if lock else [],
    }


def _no_log(plan: Plan) -> Finding:
    listed = [condition for condition in plan.conditions if condition in _CONDITIONS]
    never = f"; without one, {' and '.join(listed)} can't be raised" if listed else ""
    return Finding(
        check="kernel_fallback",
        verdict=Verdict.SKIPPED,
        message=f"no startup log was given, so kernel fallbacks and dtype changes can't be seen{never}",
        location=plan.where("service.under_test"),
        remedy="Set `log` of [service.under_test] in config.toml: a path, or docker:NAME.",
    )


def _fallbacks(plan: Plan, record: ExecutionPath, lock: locks.Lock | None, today: datetime.date) -> Finding:
    """Every fallback needs an explanation or an approval that still holds. A log without a whole start hides some."""
    if open_ones := unapproved(record, lock, today):
        return _unexplained(plan, open_ones, lock)
    if not record.whole:
        return _cut_log(plan)
    explained = sum(bool(one.explanation) for one in record.fallbacks)
    counts = {"approved": len(record.fallbacks) - explained, "known to be harmless": explained}
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    better = gone(record, lock) if lock else ()
    new = [one.id for one in explained_anew(record, lock)] if lock else []
    warnings = [
        f"approved fallbacks do not happen any more: {'; '.join(better)}" if better else "",
        f"new, and known to be harmless: {'; '.join(new)}" if new else "",
    ]
    return Finding(
        check="kernel_fallback",
        verdict=Verdict.PASS,
        message=f"no unexplained kernel fallback{f' ({told})' if told else ''}",
        warning="; ".join(filter(None, warnings)),
    )


def _unexplained(plan: Plan, open_ones: Sequence[Fallback], lock: locks.Lock | None) -> Finding:
    first = open_ones[0]
    expired = lock.fallback(first.id) if lock else None
    why = f"its approval ended on {expired.expires}" if expired else "nobody approved it"
    more = f" (and {len(open_ones) - 1} more)" if len(open_ones) > 1 else ""
    return Finding(
        check="kernel_fallback",
        verdict=Verdict.FAIL,
        symptom="kernel_fallback",
        message=f"the server gave up a kernel for another, and {why}: {first.id}{more}",
        measured=float(len(open_ones)),
        threshold=0.0,
        unit="unapproved fallbacks",
        evidence=tuple(_line(fallback.line_number, fallback.line) for fallback in open_ones[:5]),
        location=_log_line(plan, first.line_number),
        remedy=f"Find out why. If it is as it should be, approve it: {_approve_command(plan)}",
    )


def _cut_log(plan: Plan) -> Finding:
    log = plan.services["under_test"].log
    return Finding(
        check="kernel_fallback",
        verdict=Verdict.INCONCLUSIVE,
        message=f"{log} does not hold a whole start of the server, so a fallback may have gone unseen"
        if log
        else f"{plan.lock_path} approves an execution path, but no startup log was given to hold against it",
        location=plan.where("service.under_test.log"),
        remedy="Point `log` of [service.under_test] at the startup log of this server from its first line on "
        "(or docker:NAME).",
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
    if not record.whole and not changes(record, lock):
        return
    found = changes(record, lock)
    yield _changed(plan, "dtype_path", [change for change in found if change.field in DTYPE_PATH], _dtypes(record))
    others = [change for change in found if change.field not in DTYPE_PATH | IDENTITY]
    told = "; ".join(str(change) for change in found if change.field in IDENTITY)
    yield _changed(plan, "kernel_path", others, "kernels, backends and fusions are the approved ones", told)


def _changed(plan: Plan, check: str, found: Sequence[Change], fine: str, warning: str = "") -> Finding:
    if not found:
        return Finding(check=check, verdict=Verdict.PASS, message=fine, warning=warning)
    worst = next((change for change in found if change.severity is Severity.WORSE), found[0])
    what = "number formats" if check == "dtype_path" else "kernels, backends or fusions"
    return Finding(
        check=check,
        verdict=Verdict.FAIL,
        symptom="path_changed",
        message=f"{what} changed without approval: {'; '.join(str(change) for change in found)}",
        measured=worst.observed or "absent",
        threshold=worst.approved or "absent",
        evidence=tuple(_line(change.line_number, change.line, change.field) for change in found[:5] if change.line),
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


def _contradictions(plan: Plan, record: ExecutionPath, lock: locks.Lock | None, today: datetime.date) -> Finding:
    found = unapproved_contradictions(record, lock, today)
    if not found:
        accepted = "; ".join(one.sentence for one in contradictions(record))
        return Finding(
            check="contradictions",
            verdict=Verdict.PASS,
            message="the server does not contradict itself" if not accepted else "what contradicts itself is approved",
            warning=accepted,
        )
    lines = [line for one in found for line in one.lines]
    return Finding(
        check="contradictions",
        verdict=Verdict.FAIL,
        symptom=found[0].name,
        message="; ".join(one.sentence for one in found),
        evidence=tuple(_line(number, line) for number, line in lines[:5]),
        location=_log_line(plan, lines[0][0]) if lines else None,
        remedy="Do not trust this server's numbers before it is understood. If it is as it should be, approve it: "
        f"{_approve_command(plan)}",
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


def _line(number: int, line: str, title: str = "") -> Evidence:
    place = f"line {number}" if number else "not in the log"
    return Evidence(EvidenceKind.LOG, f"{title}, {place}" if title else place, line)


def _log_line(plan: Plan, number: int) -> Location | None:
    log = plan.services["under_test"].log
    return Location(log, max(number, 1)) if log and log != "-" and not log.startswith("docker:") else None


def _approve_command(plan: Plan) -> str:
    return f'`vllm-gate approve --log {plan.services["under_test"].log or "FILE"} --reason "…"`'
