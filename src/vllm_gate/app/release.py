"""One release, from a plan to what is left behind: judged, decided, reported, and rolled back where called for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vllm_gate.app.observers import Observer
from vllm_gate.app.plan import conditions
from vllm_gate.app.run import Clock, judge, masked, write_report
from vllm_gate.config.plan import Plan
from vllm_gate.core.report import Report, Rollback
from vllm_gate.gates.canary.means import Means
from vllm_gate.gates.interface import Gate
from vllm_gate.rollback.decision import decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a release is judged: the options of `run`, for both front doors."""

    gates: str = ""
    report_dir: Path = Path("vllm-gate-report")
    rollback: str = "dry-run"
    """`auto`, `dry-run` or `off`."""
    seed: int | None = None
    allowed_hosts: frozenset[str] | None = None
    proposed: bool = False
    """Whether the candidate is only proposed, by a pull request: it then never rolls production back by default."""


def judge_release(
    plan: Plan,
    gates: Sequence[Gate],
    options: Options,
    *,
    observer: Observer,
    clock: Clock,
    environ: Mapping[str, str],
    act: Callable[[Report], Rollback | None],
    means: Means | None = None,
) -> tuple[Report, Path]:
    """The masked report and where it was written. `act` carries a decision out, and is asked only in mode `auto`.

    The report is on disk before anything is dispatched, and once more with what came of that.
    """
    try:
        report = judge(
            plan,
            gates,
            wanted=options.gates,
            observer=observer,
            clock=clock,
            allowed_hosts=options.allowed_hosts,
            seed=options.seed,
            means=means,
        )
        decision = decide(
            report,
            plan.conditions,
            conditions(),
            auto_rollback=plan.rollback.auto_rollback,
            mode=options.rollback,
            pull_request=options.proposed,
            on_pull_request=plan.rollback.on_pull_request,
        )
        report = masked(replace(report, decision=decision), plan, environ)
        path = write_report(report, options.report_dir)
        outcome = act(report) if options.rollback == "auto" else None
        if outcome is not None:
            report = masked(replace(report, rollback=outcome), plan, environ)
            write_report(report, options.report_dir)
        observer.run_finished(report)  # inside: an interruption may come while the last check run is told
    except BaseException as error:
        observer.run_aborted(str(error))
        raise
    return report, path
