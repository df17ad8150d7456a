"""Who is told while a run goes on. Observers decide nothing; the runner tells them everything in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from vllm_gate.core.finding import Finding
from vllm_gate.core.report import GateResult, Report
from vllm_gate.errors import Interrupted
from vllm_gate.gates.interface import Gate


class Observer(Protocol):
    """Told of each step. An observer that raises stops nothing: see `Several`."""

    def run_started(self, gates: Sequence[Gate]) -> None: ...

    def gate_started(self, gate: Gate) -> None: ...

    def progress(self, gate: Gate, message: str, done: int, total: int, unit: str) -> None: ...

    def found(self, gate: Gate, finding: Finding) -> None: ...

    def gate_finished(self, result: GateResult) -> None: ...

    def run_finished(self, report: Report) -> None: ...

    def run_aborted(self, why: str) -> None:
        """The run ends without a report: nothing may be left open."""
        ...


class Quiet:
    """Hears everything and does nothing. Base for observers that care about a few steps only."""

    def run_started(self, gates: Sequence[Gate]) -> None:
        """See `Observer`."""

    def gate_started(self, gate: Gate) -> None:
        """See `Observer`."""

    def progress(self, gate: Gate, message: str, done: int, total: int, unit: str) -> None:
        """See `Observer`."""

    def found(self, gate: Gate, finding: Finding) -> None:
        """See `Observer`."""

    def gate_finished(self, result: GateResult) -> None:
        """See `Observer`."""

    def run_finished(self, report: Report) -> None:
        """See `Observer`."""

    def run_aborted(self, why: str) -> None:
        """See `Observer`."""


class Several:
    """Tells several observers in turn. One that breaks stops neither the others nor the run."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def run_started(self, gates: Sequence[Gate]) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.run_started(gates))

    def gate_started(self, gate: Gate) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.gate_started(gate))

    def progress(self, gate: Gate, message: str, done: int, total: int, unit: str) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.progress(gate, message, done, total, unit))

    def found(self, gate: Gate, finding: Finding) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.found(gate, finding))

    def gate_finished(self, result: GateResult) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.gate_finished(result))

    def run_finished(self, report: Report) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.run_finished(report))

    def run_aborted(self, why: str) -> None:
        """See `Observer`."""
        self._tell(lambda observer: observer.run_aborted(why))

    def _tell(self, say: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                say(observer)
            except Interrupted:
                raise
            except Exception as problem:
                print(f"vllm-gate: {type(observer).__name__} failed: {problem}", file=sys.stderr)
