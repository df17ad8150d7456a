"""The action's front door: inputs become a command line, and nothing that is printed can command the runner."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from types import FrameType

from vllm_gate import cli
from vllm_gate.core.secret import Secret
from vllm_gate.errors import ExitCode, GateError, Interrupted, UsageError
from vllm_gate.github.commands import WorkflowCommands
from vllm_gate.github.environment import read_run
from vllm_gate.github.neutral import NeutralWriter

PLAN_OPTIONS = ("settings", "config", "lock-file", "log", "service-url")
"""Inputs that every command with a configuration takes as options of the same name."""
MERGE_OPTIONS = (*PLAN_OPTIONS, "report-dir", "fail-on", "rollback")
RUN_OPTIONS = (*MERGE_OPTIONS, "gates", "traffic", "shard")
_JUDGED = {"run": RUN_OPTIONS, "merge": MERGE_OPTIONS}
"""Commands whose verdict gets check runs, outputs and a rollback, and the inputs that they take."""
_WITH_PLAN = ("validate", "capture", "doctor")
_AS_RUN = {"shadow": "gates: 5", "mirror": 'gates: 5, with listen = "HOST:PORT" under [traffic]'}
"""Commands that `run` does as well: with check runs, and with what a pull request may not do."""


def main(environ: Mapping[str, str] | None = None) -> int:
    """Run the command that the inputs describe; returns the exit code. Never raises, never prints a traceback."""
    environ = os.environ if environ is None else environ
    out, error = NeutralWriter(sys.stdout), NeutralWriter(sys.stderr)
    commands = WorkflowCommands(sys.stdout)
    try:
        with redirect_stdout(out), redirect_stderr(error):
            return int(_run(environ, commands))
    finally:
        out.finish()
        error.finish()


def entry() -> None:
    """The console script. Threads that still wait for an answer would hold the container, and the job with it."""
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(environ: Mapping[str, str], commands: WorkflowCommands) -> int:
    words = shlex.split(_input(environ, "command") or "run")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # see cli.main
    if words[0] not in (*_JUDGED, *_AS_RUN):
        return cli.main([*words, *(_options(environ, PLAN_OPTIONS) if words[0] in _WITH_PLAN else ())])
    try:
        if words[0] in _AS_RUN:
            raise UsageError(f"the action has no command {words[0]}", hint=f"use `run` with {_AS_RUN[words[0]]}")
        _close_on_signals()
        return _judge(words[0], words[1:], environ, commands)
    except (Interrupted, KeyboardInterrupt) as interrupted:
        commands.annotate("warning", str(interrupted) or "interrupted", title="vllm-gate")
        return ExitCode.INTERRUPTED
    except GateError as problem:
        commands.annotate("error", "\n".join(filter(None, (str(problem), problem.hint))), title="vllm-gate")
        return problem.exit_code
    except SystemExit as refused:  # argparse: a usage error, already worded
        return int(refused.code or 0)
    except Exception as bug:
        commands.annotate("error", f"internal error: {type(bug).__name__}: {bug}", title="vllm-gate")
        print(f"details are in {cli.write_details()}; please report them", file=sys.stderr)
        return ExitCode.BUG


def _judge(command: str, words: Sequence[str], environ: Mapping[str, str], commands: WorkflowCommands) -> ExitCode:
    # Only now: numpy and the gates take a second to load, and a usage error should not wait for them.
    from vllm_gate.app.actions import Inputs, judge_in_actions

    token = _input(environ, "github-token")
    if token:
        commands.mask(token)
    run = read_run(environ, head_sha=_input(environ, "head-sha"))
    parser = argparse.ArgumentParser(prog=f"vllm-gate {command}")
    import_module(f"vllm_gate.commands.{command}").add_arguments(parser)
    parser.set_defaults(gates="", traffic=[], shard="1/1", journals=[])  # what a command has no option for
    arguments = parser.parse_args([*words, *_options(environ, _JUDGED[command])])
    hosts = _input(environ, "allowed-hosts").replace(",", " ").split()
    inputs = Inputs(
        token=Secret(token) if token else None,
        checks=_flag(environ, "checks", default=True),
        config_ref=_input(environ, "config-ref"),
        allowed_hosts=frozenset(hosts) if hosts else None,
        workflow=_input(environ, "rollback-workflow"),
        ref=_input(environ, "rollback-ref"),
    )
    return judge_in_actions(arguments, inputs, run, commands, environ, journals=arguments.journals)


def _options(environ: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """The inputs that were given, as `--name=value`: a value that begins with a dash stays a value."""
    return [f"--{name}={value}" for name in names if (value := _input(environ, name))]


def _input(environ: Mapping[str, str], name: str) -> str:
    """An input of the action; "" when it was not given. The runner keeps the hyphens of its name."""
    return environ.get(f"INPUT_{name.upper()}", "").strip()


def _flag(environ: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = _input(environ, name).lower()
    if text not in ("", "true", "false"):
        raise UsageError(f"input {name}: {text!r} is neither true nor false")
    return default if not text else text == "true"


def _close_on_signals() -> None:
    """The first signal ends the run; later ones must not end the closing of check runs."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Interrupted(f"interrupted by {signal.Signals(number).name}")

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)


if __name__ == "__main__":
    entry()
