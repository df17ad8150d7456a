"""Who is told while a run goes on. Observers decide nothing; the runner tells them everything in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vllm_gate.core.finding import Finding
from vllm_gate.core.report import GateResult, Report
from vllm_gate.gates.interface import Gate


class Observer(Protocol):
    """Told of each step. An observer that raises stops nothing: see `Observers`."""

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
