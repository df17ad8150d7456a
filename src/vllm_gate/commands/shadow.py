"""`vllm-gate shadow`: the shadow canary alone, for as long as it takes: resumable, and in shards."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from vllm_gate.app.canary import JOURNAL, add_canary_arguments, means_for, with_traffic
from vllm_gate.app.plan import plan_from
from vllm_gate.commands.run import add_judging_arguments, conclude
from vllm_gate.config.plan import Plan
from vllm_gate.errors import ExitCode, UsageError
from vllm_gate.gates.shadow_canary import ShadowCanary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `shadow`."""
    add_judging_arguments(parser)
    add_canary_arguments(parser)
    add_journal_argument(parser)


def add_journal_argument(parser: argparse.ArgumentParser) -> None:
    """The option for where outcomes go."""
    parser.add_argument("--journal", type=Path, help=f"where outcomes are kept; default: {JOURNAL} in --report-dir")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Ask until enough is known; the exit code is the verdict's."""
    plan = with_traffic(plan_from(arguments, os.environ), arguments.traffic)
    return judge(arguments, plan, shard=arguments.shard)


def judge(arguments: argparse.Namespace, plan: Plan, *, shard: str) -> ExitCode:
    """The canary with its journal, which an earlier one must not have left there. Raises UsageError."""
    journal: Path = arguments.journal or arguments.report_dir / JOURNAL
    if journal.exists() and not arguments.resume:
        raise UsageError(
            f"{journal}: there is a journal already", hint="go on with --resume, or begin another with --journal FILE"
        )
    with means_for(plan, os.environ, journal=journal, shard=shard, resume=arguments.resume) as means:
        return conclude(arguments, plan, (ShadowCanary(),), "5", means)
