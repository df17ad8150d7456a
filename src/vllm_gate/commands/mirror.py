"""`vllm-gate mirror`: the shadow canary on copies of users' requests, taken from a proxy while they come."""

from __future__ import annotations

import argparse
import os

from vllm_gate.app.canary import add_resume_argument, with_traffic
from vllm_gate.app.plan import plan_from
from vllm_gate.commands.run import add_judging_arguments
from vllm_gate.commands.shadow import add_journal_argument, judge
from vllm_gate.errors import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mirror`."""
    add_judging_arguments(parser)
    parser.add_argument("--listen", metavar="HOST:PORT", help="where copies are taken, instead of config's")
    add_resume_argument(parser)
    add_journal_argument(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Take copies until enough is known; the exit code is the verdict's."""
    plan = with_traffic(plan_from(arguments, os.environ), listen=arguments.listen or "")
    if not plan.traffic.listen:
        raise UsageError(
            "mirror: there is no address to listen on",
            hint='give --listen 127.0.0.1:9400, or listen = "127.0.0.1:9400" under [traffic] in config.toml',
        )
    return judge(arguments, plan, shard="1/1")
