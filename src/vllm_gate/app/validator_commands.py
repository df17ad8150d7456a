"""Validators that are commands: each started once, without a shell; a line of JSON in, `yes` or `no` out."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Collection, Mapping

from vllm_gate.config.plan import Validator
from vllm_gate.core.printable import printable
from vllm_gate.core.secret import Secret
from vllm_gate.errors import CouldNotJudge

_WITHHELD = ("ACTIONS_", "INPUT_", "GITHUB_TOKEN")
_LONGEST_ANSWER = 1000


class ValidatorCommands:
    """Runs them, one line at a time each. Safe to call from several threads."""

    def __init__(self, environ: Mapping[str, str], secrets: Collection[Secret]) -> None:
        keys = {secret.reveal() for secret in secrets}
        self._environ = {
            name: value for name, value in environ.items() if value not in keys and not name.startswith(_WITHHELD)
        }
        self._running: dict[str, _Running] = {}
        self._lock = threading.Lock()

    def __call__(self, validator: Validator, line: str) -> bool:
        """Whether the command says yes. Raises CouldNotJudge when it says nothing in time, or something else."""
        with self._lock:
            if validator.name not in self._running:
                self._running[validator.name] = _Running(validator, self._environ)
            running = self._running[validator.name]
        return running.ask(line)

    def close(self) -> None:
        """End all of them."""
        for running in self._running.values():
            running.end()


class _Running:
    def __init__(self, validator: Validator, environ: Mapping[str, str]) -> None:
        self._validator = validator
        self._lock = threading.Lock()
        try:
            self._process = subprocess.Popen(
                validator.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=dict(environ),
                start_new_session=True,
            )
        except OSError as problem:
            raise self._broken(f"can't be started: {problem.strerror or problem}") from None

    def ask(self, line: str) -> bool:
        with self._lock:
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
                said = self._answer()
            except OSError:
                said = b""
        word = said.decode("utf-8", "replace").strip().lower()
        if word not in ("yes", "no"):
            raise self._broken(
                f"answered {printable(word[:60])!r}, not yes or no" if word else "ended without an answer"
            )
        return word == "yes"

    def _answer(self) -> bytes:
        """A line, as far as it comes in time."""
        assert self._process.stdout is not None
        handle, said = self._process.stdout.fileno(), b""
        deadline = time.monotonic() + self._validator.timeout_sec
        while not said.endswith(b"\n") and len(said) < _LONGEST_ANSWER:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                self.end()
                raise self._broken(f"did not answer within {self._validator.timeout_sec:g} s")
            piece = os.read(handle, _LONGEST_ANSWER)
            if not piece:
                break
            said += piece
        return said

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _broken(self, how: str) -> CouldNotJudge:
        return CouldNotJudge(
            f"the validator {self._validator.name!r} ({self._validator.command[0]}) {how}",
            hint="it must read a line of JSON from standard input and write a line with yes or no, for each answer",
        )
