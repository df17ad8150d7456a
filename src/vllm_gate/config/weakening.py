"""What a pull request takes away from the gates: looser limits, switched-off gates, fewer checks and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from vllm_gate.config.diagnostic import Diagnostic
from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Location

_KEYS = {
    "model_load": "gate_1_model_load",
    "numerical": "gate_2_numerical",
    "golden_prompt": "gate_3_golden_prompt",
    "long_context": "gate_4_long_context",
    "shadow_canary": "gate_5_shadow_canary",
}
_LOOSER_WHEN_LARGER = {
    "logit_drift_tolerance",
    "perplexity_drift_tolerance",
    "task_success_drop_threshold",
    "degeneration_rate_threshold",
    "max_per_conversation",
}
_LOOSER_WHEN_SMALLER = {
    "pass_rate_threshold",
    "json_parse_rate_threshold",
    "traffic_ratio",
    "prompts",
    "positions",
    "repeats",
}
_NO_MATTER = {
    "timeout_sec",
    "max_prompts",
    "max_requests",
    "max_duration_sec",
    "max_total_tokens",
    "max_tokens",
    "temperature",
    "suite",
}
"""Keys of which neither direction is weaker."""


def weakened(before: Plan, after: Plan) -> tuple[Diagnostic, ...]:
    """A warning for each thing that `after` asks less of than `before`, at its line in the files of `after`."""
    return (*_gates(before, after), *_conditions(before, after), *_matrix(before, after))


def _gates(before: Plan, after: Plan) -> Iterator[Diagnostic]:
    for attribute, name in _KEYS.items():
        old, new = getattr(before.gates, attribute), getattr(after.gates, attribute)
        route = f"gate_config.{name}"
        if old.enabled and not new.enabled:
            yield _warning(after, f"{route}.enabled", f"{name} is switched off")
            continue
        if not old.enabled:
            continue
        for field in fields(old):
            if why := _looser(field.name, getattr(old, field.name), getattr(new, field.name)):
                yield _warning(after, f"{route}.{field.name}", f"{field.name} {why}")
    suite = {case.id: case.expect for case in after.golden_cases}
    for case in before.golden_cases:
        if suite.get(case.id) != case.expect:
            how = "expects something else" if case.id in suite else "is removed"
            yield _warning(after, "gate_config.gate_3_golden_prompt.suite", f"the golden case {case.id} {how}")


def _looser(name: str, old: Any, new: Any) -> str:
    """How `new` asks less than `old`; "" when it does not."""
    if old == new or name in _NO_MATTER:
        return ""
    if isinstance(old, tuple):
        gone = [str(item) for item in old if item not in new]
        return f"lost {', '.join(gone)}" if gone else ""
    if isinstance(old, bool):
        return "is switched off" if old else ""
    if name in _LOOSER_WHEN_LARGER:
        return f"is loosened from {old:g} to {new:g}" if new > old else ""
    if name in _LOOSER_WHEN_SMALLER:
        return f"is loosened from {old:g} to {new:g}" if new < old else ""
    if isinstance(old, str):
        return f"is changed from {old!r} to {new!r}"
    return ""


def _conditions(before: Plan, after: Plan) -> Iterator[Diagnostic]:
    for condition in before.conditions:
        if condition not in after.conditions:
            yield _warning(after, "rollback_conditions", f"the rollback condition {condition} is removed")
    if before.rollback.auto_rollback and not after.rollback.auto_rollback:
        yield _warning(after, "rollback.auto_rollback", "auto_rollback is switched off")


def _matrix(before: Plan, after: Plan) -> Iterator[Diagnostic]:
    for key, value in before.matrix.items():
        if key not in after.matrix:
            yield _warning(after, "matrix", f"[matrix] no longer declares {key} = {value!r}")
    if before.lock and not after.lock:
        yield _warning(after, "", "the approved execution path is removed", path=before.lock_path)


def _warning(after: Plan, key: str, message: str, *, path: str = "") -> Diagnostic:
    where = after.where(key) or Location(path or "settings.json")
    return Diagnostic(location=where, key=key, message=f"this change weakens the gate: {message}", warning=True)
