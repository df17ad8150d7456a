"""Rollback conditions: a name in `rollback_conditions` to the findings that raise it.

Conditions read single findings, never the overall verdict: an inconclusive or crashed check rolls nothing back, and
a measured failure does so whatever else broke.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vllm_gate.core.finding import Finding
from vllm_gate.core.report import Report
from vllm_gate.core.verdict import Verdict

_NAMED: Mapping[str, tuple[str, str]] = {
    "gate_2_logit_drift_exceeded": ("gate_2_numerical", "logit_drift"),
    "gate_5_task_success_dropped": ("gate_5_shadow_canary", "task_success"),
    "unexplained_kernel_fallback_detected": ("execution_path", "kernel_fallback"),
    "dtype_path_changed_without_approval": ("execution_path", "dtype_path"),
}
"""Conditions with a name of their own: gate and check."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Raised by a failing finding of `check` in `gate`; an empty `check` means any check of the gate."""

    name: str
    gate: str
    check: str = ""

    def matches(self, gate: str, finding: Finding) -> bool:
        """Whether this finding raises the condition."""
        return finding.verdict is Verdict.FAIL and gate == self.gate and self.check in ("", finding.check)


@dataclass(frozen=True, slots=True)
class Match:
    """A condition and the findings that raised it."""

    condition: Condition
    findings: tuple[Finding, ...]


def known_conditions(checks: Mapping[str, Sequence[str]]) -> dict[str, Condition]:
    """Every condition there is, by name. `checks` holds the check names of each gate, by the gate's key.

    `gate_3_failed` means any failing check of gate 3, `gate_3_deterministic_probe_failed` that one check.
    """
    conditions = {name: Condition(name, *target) for name, target in _NAMED.items()}
    for gate, names in checks.items():
        short = gate[: len("gate_N")] if gate.startswith("gate_") else gate
        conditions[f"{short}_failed"] = Condition(f"{short}_failed", gate)
        for check in names:
            conditions[f"{short}_{check}_failed"] = Condition(f"{short}_{check}_failed", gate, check)
    return conditions


def matched(report: Report, wanted: Sequence[str], known: Mapping[str, Condition]) -> tuple[Match, ...]:
    """The wanted conditions that the report raises, in the order in which they were written. Raises KeyError for an
    unknown name, which the configuration has refused long before.
    """
    found = []
    for name in wanted:
        condition = known[name]
        findings = tuple(
            finding for gate in report.gates for finding in gate.findings if condition.matches(gate.gate, finding)
        )
        if findings:
            found.append(Match(condition, findings))
    return tuple(found)
