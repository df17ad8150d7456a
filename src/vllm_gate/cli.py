"""The command line: parse, call one command, and be the only place that ends the process or words an error."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType

from vllm_gate import __version__
from vllm_gate.errors import ExitCode, GateError, Interrupted

COMMANDS = {
    "run": "judge a vLLM release: ask the gates, report, and say whether it may reach users",
    "validate": "check settings.json and config.toml; prints every problem with its place and the fix",
    "init": "write starter files into this repository",
    "capture": "record a service's traces for a later comparison",
    "compare": "compare two captures",
    "localize": "say under which switch a fault vanishes, from a report for each",
    "approve": "write the execution path seen in a log to vllm-gate.lock.json",
    "shadow": "replay real traffic to a release and its baseline until enough is known; resumable, in shards",
    "mirror": "judge a release by copies of users' requests that a proxy sends here",
    "merge": "one verdict from the journals of a canary's shards",
    "simulate": "serve the embedded vLLM stand-in",
    "demo": "judge a healthy and a faulty stand-in, side by side",
    "doctor": "say what this machine or container can reach, and what to change",
}
"""Name to summary. Each has a module of its name in `vllm_gate.commands`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (see `ExitCode`). Never raises, never prints a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Read when numpy is first imported. The gate shares its machine with the server it judges: BLAS threads that
    # wait for each other would take time from both.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        _catch_signals()
        return int(_dispatch(arguments))
    except (Interrupted, KeyboardInterrupt) as interrupted:
        _say(str(interrupted) or "interrupted")
        return ExitCode.INTERRUPTED
    except GateError as error:
        _say(str(error), error.hint)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is left to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PASS
    except SystemExit as done:  # argparse: --help, --version, or a usage error already worded
        return int(done.code or 0)
    except Exception as bug:
        _say(f"internal error: {type(bug).__name__}: {bug}", f"details are in {write_details()}; please report them")
        return ExitCode.BUG


def entry() -> None:
    """The console script. An interrupted run ends at once: threads that wait for an answer would hold it."""
    code = main()
    if code == ExitCode.INTERRUPTED:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _dispatch(arguments: Sequence[str]) -> ExitCode:
    """Only the chosen command's module is imported: `--version` must not wait for numpy."""
    parser = argparse.ArgumentParser(
        prog="vllm-gate",
        description="Proves that a vLLM release is alive and right before users see it.",
        epilog="exit codes: 0 pass, 1 blocked, 2 usage or configuration, 3 not judged, 70 internal, 130 interrupted",
    )
    parser.add_argument("--version", action="version", version=f"vllm-gate {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), "")
    module: ModuleType | None = None
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        if name == chosen:
            module = import_module(f"vllm_gate.commands.{name}")
            module.add_arguments(subparser)
    parsed = parser.parse_args(arguments)
    assert module is not None, "argparse refuses a command that is not in the table"
    code: ExitCode = module.run(parsed)
    return code


def _catch_signals() -> None:
    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(f"interrupted by {signal.Signals(number).name}")

    try:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, interrupt)
    except ValueError:
        pass  # not the main thread: whoever embeds us owns the signals


def _say(message: str, hint: str = "") -> None:
    print(f"vllm-gate: {message}", file=sys.stderr)
    if hint:
        print(f"  hint: {hint}", file=sys.stderr)


def write_details() -> Path:
    """The traceback of the error at hand, in a file of its own; returns its path."""
    handle, path = tempfile.mkstemp(prefix="vllm-gate-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(f"vllm-gate {__version__}, Python {sys.version}\n{traceback.format_exc()}")
    return Path(path)
