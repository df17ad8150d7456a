"""A canary between scripted servers: what each says is a function of the request, so every outcome is known before."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vllm_gate.config.plan import Gates, Plan, ServiceConfig, ShadowCanarySettings, TrafficSettings
from vllm_gate.core.finding import Finding
from vllm_gate.gates.canary.means import Means
from vllm_gate.gates.canary.outcome import Outcome
from vllm_gate.gates.interface import Context
from vllm_gate.gates.shadow_canary import ShadowCanary
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Reply
from vllm_gate.traffic.request import CHAT, Tally, TrafficRequest

Says = Callable[[Mapping[str, Any]], Answer]
FINE = Reply(text="Paris is the capital of France.", finish_reason="stop", elapsed_s=0.01)
BROKEN = Reply(text="!" * 64, finish_reason="length", elapsed_s=0.01)
DROP_ONLY = ShadowCanarySettings(traffic_ratio=1.0, degeneration_rate_threshold=0.05, concurrency=4)
"""Limits that a few hundred pairs can prove."""


def fine(_body: Mapping[str, Any]) -> Answer:
    return FINE


def broken(_body: Mapping[str, Any]) -> Answer:
    return BROKEN


def number_of(body: Mapping[str, Any]) -> int:
    """Which request of `Numbered` this is."""
    return int(str(body["messages"][0]["content"]).rpartition(" ")[2])


def from_number(first: int, says: Answer) -> Says:
    return lambda body: says if number_of(body) >= first else FINE


@dataclass
class Scripted:
    """A service that says what its script says."""

    says: Says = fine
    name: str = "under_test"
    model: str = "m"
    asked: list[Mapping[str, Any]] = field(default_factory=list)

    def send(self, endpoint: str, body: Mapping[str, object]) -> Answer:
        self.asked.append(body)
        return self.says(body)

    def chat(self, messages: Sequence[Mapping[str, object]], *, max_tokens: int, **extra: object) -> Answer:
        return FINE


@dataclass
class Numbered:
    """Traffic of `count` chats, each with its number."""

    count: int
    name: str = "traffic.jsonl"
    repeatable: bool = True
    tally: Tally = field(default_factory=Tally)

    def requests(self) -> Generator[TrafficRequest | None]:
        for number in range(self.count):
            body = {"messages": [{"role": "user", "content": f"private question {number}"}]}
            yield TrafficRequest(id=f"r-{number}", endpoint=CHAT, body=body, line=number + 1)


class Kept:
    """A journal in memory."""

    def __init__(self, before: Sequence[Outcome] = ()) -> None:
        self.outcomes = list(before)

    def before(self) -> Iterator[Outcome]:
        return iter(list(self.outcomes))

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def canary(
    candidate: Scripted | Service,
    baseline: Scripted | Service | None = None,
    *,
    settings: ShadowCanarySettings = DROP_ONLY,
    traffic: Any = None,
    kept: TrafficSettings | None = None,
    means: Means | None = None,
) -> tuple[dict[str, Finding], dict[str, Any]]:
    """The findings by check, and the facts."""
    services: dict[str, Any] = {"under_test": candidate}
    if baseline:
        services["baseline"] = replace(baseline, name="baseline") if isinstance(baseline, Scripted) else baseline
    plan = Plan(
        services={"under_test": ServiceConfig(name="under_test")},
        gates=Gates(shadow_canary=settings),
        traffic=kept or TrafficSettings(),
    )
    context = Context(
        plan=plan,
        services=services,
        log=None,
        progress=lambda *_, **__: None,
        now=time.monotonic,
        sleep=lambda _: None,
        rng=np.random.default_rng(0),
        means=replace(means or Means(), traffic=traffic or Numbered(400)),
    )
    (check,) = ShadowCanary().checks(plan)
    findings = {finding.check: finding for finding in check.ask(context)}
    facts: Any = context.facts.get("canary", {})
    return findings, facts
