"""What a shadow canary needs from outside: traffic, a journal, and the user's commands. Tests pass their own."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from vllm_gate.config.plan import Validator
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.canary.outcome import Outcome
from vllm_gate.gates.canary.validators import RunCommand
from vllm_gate.traffic.request import Tally, TrafficRequest


class Origin(Protocol):
    """Where requests came from, and what became of those that were not replayed."""

    name: str
    tally: Tally


class TrafficSource(Origin, Protocol):
    """Requests of real users."""

    repeatable: bool
    """Whether reading it again gives the same requests in the same order: a log does, a mirror does not."""

    def requests(self) -> Generator[TrafficRequest | None]:
        """From the beginning. None: nothing at the moment. Raises FileProblem when the traffic can't be read."""
        ...


class Journal(Protocol):
    """Where outcomes are kept, in the order of the sample, so that a canary can go on after a crash."""

    def before(self) -> Iterator[Outcome]:
        """What an earlier run of this canary has found out. Raises FileProblem for a damaged journal."""
        ...

    def add(self, outcome: Outcome) -> None:
        """Keep one more outcome."""
        ...


class NoJournal:
    """Keeps nothing."""

    def before(self) -> Iterator[Outcome]:
        """See `Journal`."""
        return iter(())

    def add(self, outcome: Outcome) -> None:
        """See `Journal`."""


def no_command(validator: Validator, _line: str) -> bool:
    """Commands are only run where the front door allows it."""
    raise CouldNotJudge(f"the validator {validator.name!r} is a command, and commands may not be run here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """`traffic` None: there is none. `shard` counts from 0 to below `shards`."""

    traffic: TrafficSource | None = None
    journal: Journal = field(default_factory=NoJournal)
    run_command: RunCommand = no_command
    shard: int = 0
    shards: int = 1
