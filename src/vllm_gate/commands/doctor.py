"""`vllm-gate doctor`: what this machine or container can reach, and what to change."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from vllm_gate.app.logs import DOCKER_SOCKET
from vllm_gate.app.plan import add_plan_arguments, plan_from
from vllm_gate.app.services import connect_all
from vllm_gate.config.plan import Plan, ServiceConfig
from vllm_gate.errors import CouldNotJudge, ExitCode
from vllm_gate.server import reach
from vllm_gate.server.interface import Service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `doctor`."""
    add_plan_arguments(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """One line a question; exit 3 when the release under test can't be asked."""
    plan = plan_from(arguments, os.environ)
    where = "inside a container" if reach.inside_container() else "not in a container"
    print(f"here: {where}; default gateway {reach.default_gateway() or 'unknown'}")
    reachable = {name: _ask(plan, name, service) for name, service in connect_all(plan, None).items()}
    for name, config in plan.services.items():
        if config.snapshot:
            print(f"{name}: capture {config.snapshot}: {'is there' if Path(config.snapshot).exists() else 'MISSING'}")
    _log(plan.services["under_test"])
    return ExitCode.PASS if reachable.get("under_test") else ExitCode.COULD_NOT_JUDGE


def _ask(plan: Plan, name: str, service: Service) -> bool:
    config = plan.services[name]
    key = "no key" if not config.api_key_env else f"key from {config.api_key_env}" if config.api_key else "KEY NOT SET"
    try:
        served = [card.id for card in service.models()]
        version = service.version()
    except CouldNotJudge as error:
        print(f"{name}: {service.base_url} ({key}): NOT REACHED: {error}")
        elsewhere = reach.look_elsewhere(
            service.base_url,
            in_container=reach.inside_container(),
            gateway=reach.default_gateway(),
            answers=reach.accepts,
        )
        print(f"  {elsewhere.explain() if elsewhere else error.hint}")
        return False
    what = f"vLLM {version}" if version else "an OpenAI-compatible API (no vLLM endpoints)"
    model = "is served" if service.model in served else f"is NOT served (it has {', '.join(served) or 'none'})"
    print(f"{name}: {service.base_url} ({key}): {what}; {service.model} {model}")
    return True


def _log(config: ServiceConfig) -> None:
    if not config.log:
        print("log: none; set `log` under [service.under_test] to have the execution path recorded")
    elif not config.log.startswith("docker:"):
        print(f"log: {config.log} {'is there' if Path(config.log).exists() else 'is NOT there yet'}")
    else:
        socket = "the Docker socket is there" if Path(DOCKER_SOCKET).exists() else f"{DOCKER_SOCKET} is NOT there"
        print(f"log: {config.log} ({socket})")
