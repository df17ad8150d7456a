"""The error tree. Every error raised on purpose is a `GateError`, with an exit code and a way out.

GateError                   70  a bug of ours, unless a subclass says otherwise
├── UsageError               2  the command line is wrong
├── ConfigError              2  a configuration file is wrong
├── FileProblem              2  a file given by the user can't be read, written or understood
└── CouldNotJudge            3  nothing was proven, either way
    ├── NoAnswer             3  could not ask: no HTTP answer came
    └── UnusableAnswer       3  an HTTP answer came that no client of this API can read
Interrupted                130  SIGINT or SIGTERM
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process answers. The contract of the command line and of the action."""

    PASS = 0
    BLOCKED = 1
    USAGE = 2
    COULD_NOT_JUDGE = 3
    BUG = 70
    INTERRUPTED = 130


class GateError(Exception):
    """Base of everything vllm-gate raises on purpose: one sentence, and a hint the user can act on."""

    exit_code = ExitCode.BUG

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(GateError):
    """The command line asks for something that does not exist or can't be combined."""

    exit_code = ExitCode.USAGE


class ConfigError(GateError):
    """The configuration can't be used. The message already lists every problem with its place."""

    exit_code = ExitCode.USAGE


class FileProblem(GateError):
    """A file the user named can't be read, written or understood (snapshot, lock, log, traffic)."""

    exit_code = ExitCode.USAGE


class CouldNotJudge(GateError):
    """No verdict can be given: the service or the infrastructure failed."""

    exit_code = ExitCode.COULD_NOT_JUDGE


class NoAnswer(CouldNotJudge):
    """No HTTP answer came back. `reason` is a stable word: see `Reason` values in `server/transport.py`."""

    def __init__(self, message: str, *, reason: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class UnusableAnswer(CouldNotJudge):
    """An HTTP answer came, but it is not what the API promises (not JSON, no choices, body too large)."""


class Interrupted(GateError):
    """The run was told to stop. Raised in the main thread by the signal handler."""

    exit_code = ExitCode.INTERRUPTED
