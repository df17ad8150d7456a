"""What changed between the approved path and the one a server shows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from vllm_gate.path.fallbacks import Fallback
from vllm_gate.path.lock import Lock
from vllm_gate.path.record import ExecutionPath, State

IDENTITY = frozenset(
    {"runtime_version", "model", "max_model_len", "nccl_version", "cudagraphs_captured", "load_format"}
)
"""Fields that a release changes on purpose: told, and no reason to block."""
DTYPE_PATH = frozenset(
    {"dtype_activation", "dtype_kv_cache", "dtype_rmsnorm_weight", "quantization", "dtype_cast", "query_dtypes"}
)
"""Fields that say in which number format something is computed."""


class Severity(StrEnum):
    """How a change is to be taken."""

    CHANGED = "changed"
    BETTER = "better"
    WORSE = "worse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field: what was approved and what is seen, None for "the log says nothing of it"."""

    field: str
    approved: str | None
    observed: str | None
    severity: Severity
    line: str = ""
    line_number: int = 0

    def __str__(self) -> str:
        return f"{self.field}: {self.approved or 'absent'} → {self.observed or 'absent'} ({self.severity})"


def changes(record: ExecutionPath, lock: Lock) -> tuple[Change, ...]:
    """Every field whose value is not the approved one. A field that the log leaves unknown is not compared."""
    return tuple(_changes(record, lock))


def unapproved(record: ExecutionPath, lock: Lock | None, today: datetime.date) -> tuple[Fallback, ...]:
    """The fallbacks that no approval covers today; all of them without a lock."""
    return tuple(fallback for fallback in record.fallbacks if not _is_approved(fallback, lock, today))


def gone(record: ExecutionPath, lock: Lock) -> tuple[str, ...]:
    """Approved fallbacks that do not happen any more: the better path may be active now."""
    seen = {fallback.id for fallback in record.fallbacks}
    return tuple(approved.id for approved in lock.fallbacks if approved.id not in seen)


def _changes(record: ExecutionPath, lock: Lock) -> Iterator[Change]:
    for name, approved in lock.facts.items():
        seen = record[name]
        if seen.state is State.UNKNOWN or seen.value == approved:
            continue
        yield Change(
            field=name,
            approved=approved,
            observed=seen.value,
            severity=_severity(name, approved, seen.value),
            line=seen.line,
            line_number=seen.line_number,
        )


def _severity(name: str, approved: str | None, observed: str | None) -> Severity:
    """Losing a fusion or a kernel, or casting to another format, is worse; gaining one back is better."""
    if name in ("dtype_cast", "cudagraph_override"):
        return Severity.BETTER if observed is None else Severity.WORSE
    if name == "enforce_eager":
        return Severity.WORSE if observed == "True" else Severity.BETTER
    if approved is None or observed is None:
        return Severity.WORSE if observed is None else Severity.CHANGED
    if name in ("fusions", "linear_kernels"):
        before, after = set(approved.split(", ")), set(observed.split(", "))
        return Severity.WORSE if after < before else Severity.BETTER if after > before else Severity.CHANGED
    return Severity.CHANGED


def _is_approved(fallback: Fallback, lock: Lock | None, today: datetime.date) -> bool:
    approved = lock.fallback(fallback.id) if lock else None
    return approved is not None and approved.holds(today)
