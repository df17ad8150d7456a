"""What a person sees while a run goes on: a live line on a terminal, plain lines elsewhere (CI logs)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO

from rich.console import Console
from rich.text import Text

from vllm_gate.app.observers import Quiet
from vllm_gate.core.finding import Finding
from vllm_gate.core.printable import printable
from vllm_gate.core.report import GateResult
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.interface import Gate

_QUIET_SECONDS = 10.0
"""Plain output repeats progress at most this often: a CI log is read afterwards."""


class PlainProgress(Quiet):
    """One line a gate and a finding, and now and then one about how far it is."""

    def __init__(self, out: IO[str], now: Callable[[], float]) -> None:
        self._out = out
        self._now = now
        self._last = float("-inf")

    def gate_started(self, gate: Gate) -> None:
        """See `Observer`."""
        self._say(f"{_title(gate)} …")
        self._last = self._now()

    def progress(self, gate: Gate, message: str, done: int, total: int, unit: str) -> None:
        """See `Observer`."""
        if self._now() - self._last >= _QUIET_SECONDS:
            self._last = self._now()
            self._say(f"  {_so_far(message, done, total, unit)}")

    def found(self, gate: Gate, finding: Finding) -> None:
        """See `Observer`."""
        self._say(f"  {finding.verdict}: {finding.check}: {printable(finding.message, one_line=True)}")

    def gate_finished(self, result: GateResult) -> None:
        """See `Observer`."""
        self._say(f"{result.title}: {result.verdict} after {result.duration_s:.1f} s")

    def _say(self, line: str) -> None:
        print(line, file=self._out, flush=True)


class LiveProgress(Quiet):
    """One line that is rewritten in place while a gate is asked, then a line a gate."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("")

    def gate_started(self, gate: Gate) -> None:
        """See `Observer`."""
        self._status.update(f"[bold]{_title(gate)}[/bold]")
        self._status.start()

    def progress(self, gate: Gate, message: str, done: int, total: int, unit: str) -> None:
        """See `Observer`."""
        line = Text.assemble((f"{_title(gate)}  ", "bold"), printable(_so_far(message, done, total, unit)))
        self._status.update(line)

    def gate_finished(self, result: GateResult) -> None:
        """See `Observer`."""
        self._status.stop()
        style = {Verdict.PASS: "green", Verdict.FAIL: "bold red"}.get(result.verdict, "yellow")
        self._console.print(Text(f"{result.title}: {result.verdict} after {result.duration_s:.1f} s", style=style))

    def run_aborted(self, why: str) -> None:
        """See `Observer`."""
        self._status.stop()


def progress_observer(now: Callable[[], float], out: IO[str] | None = None) -> Quiet:
    """The fitting one for `out` (standard error unless given)."""
    stream = out or sys.stderr
    return LiveProgress(Console(file=stream, highlight=False)) if stream.isatty() else PlainProgress(stream, now)


def _title(gate: Gate) -> str:
    return f"gate {gate.number} {gate.title}" if gate.number else gate.title


def _so_far(message: str, done: int, total: int, unit: str) -> str:
    return f"{message} ({done}/{total} {unit})" if total else message
