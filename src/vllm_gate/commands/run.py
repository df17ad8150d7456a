"""`vllm-gate run`: judge a release."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import sys
from pathlib import Path

from vllm_gate.app import run as app
from vllm_gate.app.live import progress_observer
from vllm_gate.app.plan import add_plan_arguments, conditions, plan_from
from vllm_gate.errors import ExitCode
from vllm_gate.gates.registry import GATES
from vllm_gate.report.console import to_text
from vllm_gate.report.json_report import to_json
from vllm_gate.rollback.decision import decide


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `run`."""
    add_plan_arguments(parser)
    parser.add_argument("--gates", default="", help="which gates: 1-3, 1,3,path; default: all that are enabled")
    parser.add_argument("--report-dir", type=Path, default=Path("vllm-gate-report"), help="where report.json goes")
    parser.add_argument(
        "--fail-on",
        choices=app.FAIL_ON,
        default="inconclusive",
        help="what makes the exit code non-zero: fail alone, also not being able to judge (default), or never",
    )
    parser.add_argument(
        "--rollback",
        choices=("dry-run", "off"),
        default="dry-run",
        help="whether to decide about a rollback; the command line tells the decision and dispatches nothing",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what standard output gets")
    parser.add_argument("--seed", type=int, help="repeat a run's random choices (the report names its seed)")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Judge, print, write; the exit code is the verdict's."""
    plan = plan_from(arguments, os.environ)
    clock = app.Clock()
    observer = progress_observer(clock.now)
    try:
        report = app.judge(plan, GATES, wanted=arguments.gates, observer=observer, clock=clock, seed=arguments.seed)
    except BaseException as error:
        observer.run_aborted(str(error))
        raise
    decision = decide(
        report, plan.conditions, conditions(), auto_rollback=plan.rollback.auto_rollback, mode=arguments.rollback
    )
    report = app.masked(dataclasses.replace(report, decision=decision), plan, os.environ)
    path = app.write_report(report, arguments.report_dir)
    observer.run_finished(report)
    if arguments.format == "json":
        sys.stdout.write(to_json(report))
    else:
        width = min(shutil.get_terminal_size((100, 24)).columns, 120)
        sys.stdout.write(to_text(report, width=width, color=sys.stdout.isatty()))
        print(f"\nreport: {path}")
    return app.exit_code(report, arguments.fail_on)
