"""What one run found. Reporters turn it into a check run, a summary, a page or JSON; they decide nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict, worst


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """What one gate found.

    `number` orders gates in every report; `facts` are measurements worth keeping that no check judges
    (JSON-serialisable, e.g. the hash of the golden prompts' token ids).
    """

    gate: str
    number: int
    title: str
    findings: tuple[Finding, ...] = ()
    skipped: str = ""
    """Why the gate was not run; empty when it was."""
    duration_s: float = 0.0
    facts: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.skipped and self.findings:
            raise ValueError(f"{self.gate}: a skipped gate has no findings")

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings; an enabled gate that answered no check is an error, never a pass."""
        return Verdict.SKIPPED if self.skipped else worst(finding.verdict for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """Who was asked, without any key."""

    name: str
    base_url: str
    model: str
    version: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether to roll back, and the conditions (with their findings) that say so."""

    matched: tuple[str, ...]
    reason: str
    action: str
    """`none`, `dispatch`, `dry-run`, `off`, `not-on-this-event`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """What was done about a decision to dispatch: its outcome is its own, and changes no verdict."""

    correlation_id: str
    dispatched: bool = False
    already: bool = False
    """Whether an earlier request of this attempt had dispatched it."""
    run_url: str = ""
    error: str = ""
    """Why the workflow could not be dispatched; empty when it was, or when nothing was to be."""
    webhook: str = ""
    """`sent`, why it could not be sent, or empty when there was nobody to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run, whole. Times are ISO 8601 in UTC; `thresholds` freezes the settings the verdict was given under."""

    tool_version: str
    started_at: str
    duration_s: float
    gates: tuple[GateResult, ...]
    services: tuple[ServiceFacts, ...] = ()
    thresholds: Mapping[str, object] = field(default_factory=dict)
    decision: Decision | None = None
    rollback: Rollback | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of its gates; a run in which no gate was asked is an error."""
        return worst(gate.verdict for gate in self.gates)

    @property
    def failed_gates(self) -> tuple[str, ...]:
        """Names of the gates that failed, in report order."""
        return tuple(gate.gate for gate in self.gates if gate.verdict is Verdict.FAIL)
