"""What a gate is: an ordered list of checks. It asks servers and returns findings; it never prints or exits."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Finding
from vllm_gate.gates.canary.means import Means
from vllm_gate.server.interface import Service


class Progress(Protocol):
    """Tells the user how far a gate is. `done`/`total` count `unit`s; total 0 means unknown."""

    def __call__(self, message: str, done: int = 0, total: int = 0, unit: str = "") -> None: ...


class LogSource(Protocol):
    """The server's start-up log, which may still be growing. Reading is cheap and may be repeated."""

    name: str

    def lines(self) -> Iterable[str]:
        """Every line so far, without line ends. Empty when there is nothing yet."""
        ...

    def chunks(self) -> Iterable[bytes]:
        """The same as bytes, cut anywhere: several times as fast where a log is large."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything a gate may touch. Clocks, sleep and randomness are passed in so that tests own them."""

    plan: Plan
    services: Mapping[str, Service]
    """By configured name: `under_test`, `baseline`, `tp.1`, …"""
    log: LogSource | None
    progress: Progress
    now: Callable[[], float]
    """Monotonic seconds."""
    sleep: Callable[[float], None]
    rng: np.random.Generator
    today: datetime.date = datetime.date.max
    """For approvals that expire. The far future unless given: an approval then counts only if it has no end."""
    checkpoint: Callable[[str], Mapping[str, bytes]] = lambda _: {}
    """First bytes of a model's `config.json` and `*.safetensors` by name, where its folder can be read; else empty."""
    snapshots: Mapping[str, bytes] = field(default_factory=dict)
    """Captured traces by service name, as read from the files that `snapshot = …` names."""
    means: Means = field(default_factory=Means)
    """What the shadow canary needs from outside."""
    facts: dict[str, object] = field(default_factory=dict)
    """What a gate wants kept in the report besides findings. Emptied by the runner before each gate."""

    @property
    def under_test(self) -> Service:
        return self.services["under_test"]


@dataclass(frozen=True, slots=True)
class Check:
    """One question. `ask` may return several findings; when it raises, the check stays in the total as an error."""

    name: str
    ask: Callable[[Context], Iterable[Finding]]


class Gate(Protocol):
    """One gate. `key` is its name in settings.json (`gate_1_model_load`)."""

    key: str
    number: int
    title: str

    def checks(self, plan: Plan) -> Sequence[Check]:
        """The enabled checks, in the order they are asked. State shared by checks lives in their closure."""
        ...

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        """Checks asked once more after the last gate, under this gate's name; mostly none."""
        ...
