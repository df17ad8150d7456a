"""`vllm-gate merge`: one verdict from the journals of a canary's shards."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from vllm_gate.app.merged_canary import MergedCanary
from vllm_gate.app.plan import plan_from
from vllm_gate.commands.run import add_judging_arguments, conclude
from vllm_gate.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `merge`."""
    add_judging_arguments(parser)
    parser.add_argument(
        "journals", type=Path, nargs="+", metavar="JOURNAL", help="what `--shard` left behind, or a folder of those"
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    """Judge the outcomes as one run would have; the exit code is the verdict's."""
    plan = plan_from(arguments, os.environ)
    gate = MergedCanary(plan, arguments.journals)
    return conclude(arguments, plan, (gate,), "")
