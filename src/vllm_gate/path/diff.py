"""What changed between the approved path and the one a server shows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from vllm_gate.path.contradictions import Contradiction, contradictions
from vllm_gate.path.fallbacks import Fallback
from vllm_gate.path.lock import VOLATILE, Approved, Lock
from vllm_gate.path.record import ExecutionPath, State

IDENTITY = frozenset(
    {
        "runtime_version",
        "model",
        "architecture",
        "max_model_len",
        "nccl_version",
        "load_format",
        "unknown_environment",
        "hardware",
    }
)
"""Fields that a release changes on purpose, or that compute nothing: told, and no reason to block."""
DTYPE_PATH = frozenset(
    {
        "dtype_activation",
        "dtype_kv_cache",
        "dtype_rmsnorm_weight",
        "dtype_weights",
        "dtype_cast",
        "query_dtypes",
        "quantization",
        "checkpoint_quantization",
        "kv_cache_scales",
    }
)
"""Fields that say in which number format something is computed."""
_ALARMS = frozenset(
    {
        "dtype_cast",
        "cudagraph_override",
        "kv_cache_scales",
        "quantization_scales",
        "prefix_caching_disabled",
        "routing",
        "model_code",
    }
)
"""Fields that only a message of something going wrong fills."""
_MORE_IS_BETTER = frozenset({"fusions", "allreduce_backends"})


class Severity(StrEnum):
    """How a change is to be taken."""

    CHANGED = "changed"
    BETTER = "better"
    WORSE = "worse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field: what was approved and what is seen, None for "the server says nothing of it"."""

    field: str
    approved: str | None
    observed: str | None
    severity: Severity
    line: str = ""
    line_number: int = 0

    def __str__(self) -> str:
        return f"{self.field}: {self.approved or 'absent'} → {self.observed or 'absent'} ({self.severity})"


def changes(record: ExecutionPath, lock: Lock) -> tuple[Change, ...]:
    """Every field whose value is not the approved one. A field that the record leaves unknown is not compared."""
    return tuple(_changes(record, lock))


def unapproved(record: ExecutionPath, lock: Lock | None, today: datetime.date) -> tuple[Fallback, ...]:
    """The fallbacks that nobody explains: neither a row of the table nor an approval that holds today."""
    return tuple(
        one
        for one in record.fallbacks
        if not one.explanation and not _holds(lock.fallback(one.id) if lock else None, today)
    )


def unapproved_contradictions(
    record: ExecutionPath, lock: Lock | None, today: datetime.date
) -> tuple[Contradiction, ...]:
    """The contradictions that no approval covers today."""
    return tuple(
        one for one in contradictions(record) if not _holds(lock.contradiction(one.name) if lock else None, today)
    )


def explained_anew(record: ExecutionPath, lock: Lock) -> tuple[Fallback, ...]:
    """Fallbacks that need no approval, and that the approved path did not have."""
    return tuple(one for one in record.fallbacks if one.explanation and not lock.fallback(one.id))


def gone(record: ExecutionPath, lock: Lock) -> tuple[str, ...]:
    """Approved fallbacks that do not happen any more: the better path may be active now."""
    seen = {one.id for one in record.fallbacks}
    return tuple(approved.id for approved in lock.fallbacks if approved.id not in seen)


def _changes(record: ExecutionPath, lock: Lock) -> Iterator[Change]:
    for name, approved in lock.facts.items():
        seen = record[name]
        if seen.state is State.UNKNOWN or seen.value == approved or name in VOLATILE:
            continue
        if approved is None and seen.source != "log":
            continue  # another source speaks of what the approved log never told
        yield Change(
            field=name,
            approved=approved,
            observed=seen.value,
            severity=_severity(name, approved, seen.value),
            line=seen.line,
            line_number=seen.line_number,
        )


def _severity(name: str, approved: str | None, observed: str | None) -> Severity:
    """Losing a fusion, or casting to another format, is worse; gaining one back is better."""
    if name in _ALARMS:
        return Severity.BETTER if observed is None else Severity.WORSE
    if name == "enforce_eager":
        return Severity.WORSE if observed == "True" else Severity.BETTER
    if approved is None or observed is None:
        return Severity.WORSE if observed is None else Severity.CHANGED
    if name in _MORE_IS_BETTER:
        before, after = set(approved.split(", ")), set(observed.split(", "))
        return Severity.WORSE if after < before else Severity.BETTER if after > before else Severity.CHANGED
    return Severity.CHANGED


def _holds(approved: Approved | None, today: datetime.date) -> bool:
    return approved is not None and approved.holds(today)
