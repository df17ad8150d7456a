"""`vllm-gate run`: judge a release."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from vllm_gate.app import run as app
from vllm_gate.app.canary import JOURNAL, add_canary_arguments, means_for, with_traffic
from vllm_gate.app.live import progress_observer
from vllm_gate.app.plan import add_plan_arguments, plan_from
from vllm_gate.app.release import Options, judge_release
from vllm_gate.app.rollback import act_on, outlet_from
from vllm_gate.config.plan import Plan
from vllm_gate.errors import ExitCode
from vllm_gate.gates.canary.means import Means
from vllm_gate.gates.interface import Gate
from vllm_gate.gates.registry import GATES
from vllm_gate.report.console import to_text
from vllm_gate.report.json_report import to_json
from vllm_gate.rollback.decision import MODES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `run`."""
    add_judging_arguments(parser)
    add_canary_arguments(parser)
    parser.add_argument("--gates", default="", help="which gates: 1-3, or 1,3,path; default: all that are enabled")


def add_judging_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of every command that judges a release."""
    add_plan_arguments(parser)
    parser.add_argument("--report-dir", type=Path, default=Path("vllm-gate-report"), help="where report.json goes")
    parser.add_argument(
        "--fail-on",
        choices=app.FAIL_ON,
        default="inconclusive",
        help="what makes the exit code non-zero: fail alone, also not being able to judge (default), or never",
    )
    parser.add_argument(
        "--rollback",
        choices=MODES,
        default="dry-run",
        help="auto dispatches the rollback workflow (needs GITHUB_TOKEN and GITHUB_REPOSITORY) and tells the webhook; "
        "dry-run (default) tells the decision alone",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what standard output gets")
    parser.add_argument("--seed", type=int, help="repeat a run's random choices (the report names its seed)")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Judge, print, write; the exit code is the verdict's."""
    plan = with_traffic(plan_from(arguments, os.environ), arguments.traffic)
    journal = arguments.report_dir / JOURNAL
    with means_for(plan, os.environ, journal=journal, shard=arguments.shard, resume=arguments.resume) as means:
        return conclude(arguments, plan, GATES, arguments.gates, means)


def conclude(
    arguments: argparse.Namespace, plan: Plan, gates: Sequence[Gate], wanted: str, means: Means | None = None
) -> ExitCode:
    """Judge by these gates, print, write, and act on what was found."""
    clock = app.Clock()
    options = Options(gates=wanted, report_dir=arguments.report_dir, rollback=arguments.rollback, seed=arguments.seed)
    outlet = outlet_from(os.environ, clock) if options.rollback == "auto" else None
    report, path = judge_release(
        plan,
        gates,
        options,
        observer=progress_observer(clock.now),
        clock=clock,
        environ=os.environ,
        act=lambda judged: act_on(judged, plan.rollback, outlet) if outlet else None,
        means=means,
    )
    if arguments.format == "json":
        sys.stdout.write(to_json(report))
    else:
        width = min(shutil.get_terminal_size((100, 24)).columns, 120)
        sys.stdout.write(to_text(report, width=width, color=sys.stdout.isatty()))
        print(f"\nreport: {path}")
    return app.exit_code(report, arguments.fail_on)
