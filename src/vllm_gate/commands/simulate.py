"""`vllm-gate simulate`: serve the embedded vLLM stand-in until interrupted."""

from __future__ import annotations

import argparse
import time

from vllm_gate.errors import ExitCode, FileProblem, UsageError
from vllm_gate.simulator.faults import FAULTS, parse_fault
from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `simulate`."""
    defaults = SimulatorSettings()
    parser.add_argument("--host", default=defaults.host, help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 takes a free one")
    parser.add_argument("--model", default=defaults.model, help="served model name")
    parser.add_argument("--tp", type=int, default=defaults.tp, help="tensor-parallel size")
    parser.add_argument("--seed", type=int, default=defaults.seed, help="seed of the weights")
    parser.add_argument("--log", default="", help="file to write the startup log to")
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME[:VALUE]", help="what is wrong with it; may be repeated"
    )
    parser.add_argument("--list-faults", action="store_true", help="list every fault, and do nothing else")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Serve until SIGINT or SIGTERM."""
    if arguments.list_faults:
        for name, kind in FAULTS.items():
            value = f":{kind.default:g}" if kind.default is not None else ""
            print(f"{name + value:24} {kind.summary}")
        return ExitCode.PASS
    if not 1 <= arguments.tp <= 64:
        raise UsageError(f"--tp {arguments.tp}: a tensor-parallel size lies between 1 and 64")
    for text in arguments.fault:
        try:
            parse_fault(text)
        except ValueError as problem:
            raise UsageError(f"--fault {text}: {problem}", hint="`vllm-gate simulate --list-faults`") from problem
    settings = SimulatorSettings(
        host=arguments.host,
        port=arguments.port,
        model=arguments.model,
        tp=arguments.tp,
        seed=arguments.seed,
        log_path=arguments.log,
        faults=tuple(arguments.fault),
    )
    try:
        server = Simulator(settings)
    except (OSError, OverflowError) as problem:
        raise UsageError(f"can't listen on {arguments.host}:{arguments.port}: {problem}") from problem
    try:
        server.start()
    except OSError as problem:
        raise FileProblem(f"{arguments.log}: the log can't be written: {problem.strerror}") from problem
    with_faults = f", faults: {', '.join(arguments.fault)}" if arguments.fault else ""
    print(f"serving {arguments.model} (TP={arguments.tp}{with_faults}) at {server.base_url}", flush=True)
    try:
        while True:
            time.sleep(3600)
    finally:
        server.stop()
