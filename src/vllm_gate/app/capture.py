"""Recording a service's traces, and comparing two recordings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vllm_gate.app.live import progress_observer
from vllm_gate.app.logs import open_log
from vllm_gate.app.run import Clock
from vllm_gate.app.services import connect_all
from vllm_gate.config.plan import Gates, NumericalSettings, Plan, ServiceConfig
from vllm_gate.core.finding import Finding
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.consistency.comparing import compare
from vllm_gate.gates.consistency.findings import (
    corrupt_finding,
    decode_finding,
    drift_finding,
    nothing_to_line_up,
    perplexity_finding,
)
from vllm_gate.gates.consistency.sides import LiveSide, SnapshotSide
from vllm_gate.gates.consistency.tracing import prompts
from vllm_gate.gates.interface import Context, Progress
from vllm_gate.gates.numerical import Numerical
from vllm_gate.gates.readiness import NotReady, Readiness, look_around
from vllm_gate.judge.snapshot import Snapshot


def capture(
    plan: Plan, service: ServiceConfig, clock: Clock, rng: np.random.Generator, *, wait: bool = False
) -> Snapshot:
    """Everything gate 2 may ask of `service`, as a snapshot. Raises CouldNotJudge when it can't be asked.

    `wait` gives a server that is still starting the time that gate 1 would give it.
    """
    client = connect_all(plan, None)[service.name]
    observer, gate = progress_observer(clock.now), Numerical()
    observer.gate_started(gate)

    def progress(message: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        observer.progress(gate, message, done, total, unit)

    context = _context(plan, clock, rng, progress)
    try:
        if wait:
            log = open_log(service.log) if service.log else None
            _wait_for(replace(context, services={"under_test": client}, log=log))
        side = LiveSide(service.name, client, context)
        asked = prompts()[: plan.gates.numerical.max_prompts]
        traces, again = side.lead(asked), side.again(asked)
        prose = side.read(None)
    finally:
        observer.run_aborted("")
    facts = {
        "service": service.name,
        "model": service.model,
        "version": client.version() or "",
        "captured_at": clock.utc().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return Snapshot(facts=facts, traces=tuple(traces), again=tuple(again), prose=tuple(prose), limits=side.limits)


def _wait_for(context: Context) -> None:
    state = Readiness(look_around).of(context)
    if isinstance(state, NotReady):
        raise CouldNotJudge(state.finding.message, hint=state.finding.remedy)


def compare_snapshots(
    first: Snapshot, second: Snapshot, settings: NumericalSettings, rng: np.random.Generator
) -> tuple[Finding, ...]:
    """The findings of gate 2 for two captures; the first is the reference."""
    plan = Plan(services={}, gates=Gates(numerical=settings))
    context = _context(plan, Clock(), rng, _silent)
    labels = [snapshot.facts.get("service", "capture") for snapshot in (first, second)]
    if labels[0] == labels[1]:
        labels = [f"{labels[0]} (first)", f"{labels[1]} (second)"]
    comparison = compare(context, SnapshotSide(labels[0], first), SnapshotSide(labels[1], second))
    if comparison.corrupt:
        return (corrupt_finding(comparison, labels[1]),)
    if not comparison.comparable:
        return (nothing_to_line_up(plan, comparison),)
    return (
        drift_finding(plan, comparison, check="logit_drift", against=labels[0]),
        *decode_finding(plan, comparison),
        *perplexity_finding(plan, comparison),
    )


def _silent(message: str, done: int = 0, total: int = 0, unit: str = "") -> None:
    """Progress that nobody watches: comparing captures takes no time."""


def _context(plan: Plan, clock: Clock, rng: np.random.Generator, progress: Progress) -> Context:
    return Context(plan=plan, services={}, log=None, progress=progress, now=clock.now, sleep=clock.sleep, rng=rng)
