"""`vllm-gate capture`: record what a service says of the shipped prompts, for a later comparison."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from vllm_gate.app import run as app
from vllm_gate.app.capture import capture
from vllm_gate.app.files import write_atomically
from vllm_gate.app.plan import add_plan_arguments, plan_from
from vllm_gate.errors import ExitCode, UsageError
from vllm_gate.judge.snapshot import to_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `capture`."""
    add_plan_arguments(parser)
    parser.add_argument("--service", default="under_test", help="which service: under_test, baseline, tp.1, …")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument(
        "--wait", action="store_true", help="wait for a server that is starting, up to gate_1_model_load.timeout_sec"
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    """Ask the service and write the capture."""
    plan = plan_from(arguments, os.environ)
    service = plan.services.get(arguments.service)
    if service is None or not service.base_url:
        live = ", ".join(name for name, known in plan.services.items() if known.base_url)
        raise UsageError(f"--service {arguments.service}: there is no such live service", hint=f"live are: {live}")
    snapshot = capture(plan, service, app.Clock(), np.random.default_rng(), wait=arguments.wait)
    write_atomically(arguments.out, to_bytes(snapshot))
    for limit in snapshot.limits:
        print(f"limit: {limit}")
    print(f"captured {len(snapshot.traces)} texts of {service.name} ({service.model}) into {arguments.out}")
    return ExitCode.PASS
