"""Which gates a run asks: what settings.json enables, narrowed by `--gates`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vllm_gate.app.runner import Selection
from vllm_gate.config.plan import Plan
from vllm_gate.errors import UsageError
from vllm_gate.gates.interface import Gate

PATH = "path"
"""The word that selects the execution path, which has no number of its own."""

NO_LOG = (
    "no startup log was given, so kernel fallbacks and dtype changes can't be seen: set `log` under "
    "[service.under_test] in config.toml"
)


_ASKED_FOR = "change that, or leave it out of --gates"


def select(gates: Sequence[Gate], plan: Plan, wanted: str) -> Selection:
    """The gates of a run. `wanted` is `--gates` (`1-3`, `1,3,path`); empty means all that are enabled.

    A range takes what can be asked of it, and the execution path where it spans the step from 1 to 2. Raises
    UsageError when `wanted` names a gate by itself that does not exist or that settings.json switched off: running
    nothing for it would look like a pass.
    """
    named, spanned = _parse(wanted, {_name(gate) for gate in gates})
    skipped = {}
    for gate in gates:
        name = _name(gate)
        if wanted.strip() and name not in named | spanned:
            skipped[gate.key] = f"not in --gates {wanted}"
        elif why := _why_not(plan, gate):
            if name in named:
                raise UsageError(f"--gates asks for {name}, but {gate.key} can't be asked: {why}", hint=_ASKED_FOR)
            skipped[gate.key] = why
    if len(skipped) == len(gates):
        raise UsageError("every gate is switched off: nothing would be judged", hint="enable a gate in gate_config")
    return Selection(gates=tuple(gates), skipped=skipped)


def _parse(wanted: str, known: set[str]) -> tuple[set[str], set[str]]:
    """The gates named one by one, and those that ranges span."""
    named: set[str] = set()
    spanned: set[str] = set()
    for part in filter(None, (part.strip() for part in wanted.split(","))):
        span = re.fullmatch(r"(\d+)\s*-\s*(\d+)", part)
        first, last = (int(span[1]), int(span[2])) if span else (0, -1)
        chosen = {str(number) for number in range(first, last + 1)} if span and last <= 99 else {part}
        if not chosen or not chosen <= known:
            raise UsageError(
                f"--gates {wanted}: there is no gate {part!r}",
                hint=f"known: {', '.join(sorted(known))}; ranges such as 1-3 and lists such as 1,3 both work",
            )
        if first < last:
            spanned |= chosen | ({PATH} & known if first <= 1 < last else set())
        else:
            named |= chosen
    return named, spanned


def _why_not(plan: Plan, gate: Gate) -> str:
    """Why the configuration keeps a gate from being asked; "" when it does not.

    A gate that reads the startup log is asked without one if there is a lock: it then says what it can't compare.
    """
    if not _enabled(plan, gate):
        return f"switched off{_place(plan, gate)}"
    lacks_log = getattr(gate, "needs_log", False) and not plan.services["under_test"].log and not plan.lock
    return NO_LOG if lacks_log else ""


def _name(gate: Gate) -> str:
    return str(gate.number) if gate.number else PATH


def _enabled(plan: Plan, gate: Gate) -> bool:
    settings = getattr(plan.gates, gate.key.split("_", 2)[-1], None)
    return settings.enabled if settings is not None else True


def _place(plan: Plan, gate: Gate) -> str:
    place = plan.where(f"gate_config.{gate.key}.enabled")
    return f" in {place}" if place else ""
