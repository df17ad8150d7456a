"""The two sides of a comparison, each live or captured: one leads with its own words, the other follows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from vllm_gate.gates.consistency.tracing import Tracer, prose
from vllm_gate.gates.interface import Context
from vllm_gate.judge.snapshot import Snapshot
from vllm_gate.judge.trace import Trace
from vllm_gate.server.interface import Service

Prompts = Sequence[tuple[str, str]]


class Side(Protocol):
    """One service in a comparison. Results are kept, so that comparing with it twice asks once."""

    label: str

    @property
    def limits(self) -> tuple[str, ...]:
        """What this side could not say, in sentences."""
        ...

    def lead(self, prompts: Prompts) -> list[Trace]:
        """This side's own continuations, decoded and scored. Prompts that it does not know are left out."""
        ...

    def again(self, prompts: Prompts) -> list[Trace]:
        """Its own continuations scored a second time, in another order and at another concurrency."""
        ...

    def follow(self, led: Sequence[Trace]) -> list[Trace]:
        """The other side's continuations as this side scores them, and its own decoding after the same prompts."""
        ...

    def read(self, led: Sequence[Trace] | None) -> list[Trace]:
        """The human text: as this side tokenises it, or by the other side's token ids."""
        ...


class LiveSide:
    """A service that is up."""

    def __init__(self, label: str, service: Service, context: Context) -> None:
        settings = context.plan.gates.numerical
        self.label = label
        self.service = service
        self._length = settings.positions
        self._concurrency = settings.concurrency
        self._rng = context.rng
        salt = f"vllm-gate-{label}-{context.rng.integers(2**48):012x}"
        self._tracer = Tracer(service, concurrency=settings.concurrency, salt=salt, progress=context.progress)
        self._led: dict[str, Trace] = {}
        self._again: dict[str, Trace] = {}

    @property
    def limits(self) -> tuple[str, ...]:
        """See `Side`."""
        return tuple(self._tracer.can.limits)

    def lead(self, prompts: Prompts) -> list[Trace]:
        """See `Side`."""
        new = [prompt for prompt in prompts if prompt[0] not in self._led]
        traces = self._tracer.scores(self._tracer.continuations(new, self._length))
        self._led |= {trace.prompt_id: trace for trace in traces}
        return [self._led[prompt_id] for prompt_id, _ in prompts]

    def again(self, prompts: Prompts) -> list[Trace]:
        """See `Side`."""
        new = [trace for trace in self.lead(prompts) if trace.prompt_id not in self._again and trace.continuation]
        shuffled = [new[index] for index in self._rng.permutation(len(new))]
        other = 1 if self._concurrency > 1 else 4
        self._again |= {trace.prompt_id: trace for trace in self._tracer.scores(shuffled, concurrency=other)}
        return [self._again[prompt_id] for prompt_id, _ in prompts if prompt_id in self._again]

    def follow(self, led: Sequence[Trace]) -> list[Trace]:
        """See `Side`."""
        asked = [trace for trace in led if trace.continuation]
        heads = [(trace.prompt_id, trace.token_ids[: trace.start]) for trace in asked]
        decoded = self._tracer.continuations(heads, self._length)
        scored = self._tracer.scores(asked)
        return [replace(score, decoded=own.decoded) for score, own in zip(scored, decoded, strict=True)]

    def read(self, led: Sequence[Trace] | None) -> list[Trace]:
        """See `Side`."""
        if led is None:
            return self._tracer.read(prose())
        return self._tracer.reread([trace for trace in led if trace.token_ids])


class SnapshotSide:
    """A capture. It can't score another side's words; its own are compared as far as both say the same."""

    def __init__(self, label: str, snapshot: Snapshot) -> None:
        self.label = label
        self.snapshot = snapshot
        self.limits = snapshot.limits
        self._traces = {trace.prompt_id: trace for trace in snapshot.traces}
        self._again = {trace.prompt_id: trace for trace in snapshot.again}

    def lead(self, prompts: Prompts) -> list[Trace]:
        """See `Side`."""
        return [self._traces[prompt_id] for prompt_id, _ in prompts if prompt_id in self._traces]

    def again(self, prompts: Prompts) -> list[Trace]:
        """See `Side`."""
        return [self._again[prompt_id] for prompt_id, _ in prompts if prompt_id in self._again]

    def follow(self, led: Sequence[Trace]) -> list[Trace]:
        """See `Side`."""
        return [self._traces[trace.prompt_id] for trace in led if trace.prompt_id in self._traces]

    def read(self, led: Sequence[Trace] | None) -> list[Trace]:
        """See `Side`."""
        wanted = None if led is None else {trace.token_ids for trace in led}
        return [trace for trace in self.snapshot.prose if wanted is None or trace.token_ids in wanted]
