"""The simulator's answers have the statuses, fields and types that a real vLLM was recorded with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.simulator_contract.exchanges import EXCHANGES
from tests.simulator_contract.record import record
from tests.simulator_contract.recordings import FAULTY, HEALTHY, departures, recorded

from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings

MODEL = "smollm2"
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "": ("usage.prompt_tokens_details.created_cache_tokens",),  # new in 0.32
    "models": ("lacks data[].permission",),  # a relic of OpenAI's first API
    "server_info": ("lacks ",),  # a whole configuration: what is there must be right
}
"""What the simulator need not have, by exchange; "" is all others."""
NAMES = tuple(exchange.name for exchange in EXCHANGES)


@pytest.fixture(scope="module")
def healthy() -> Iterator[Mapping[str, Any]]:
    """Everything that a healthy simulator answers."""
    yield from _answers()


@pytest.fixture(scope="module")
def faulty() -> Iterator[Mapping[str, Any]]:
    """The same of one with the original fault."""
    yield from _answers(faults=("fp32_as_bf16",), tp=3)


@pytest.mark.parametrize("name", NAMES)
def test_a_healthy_simulator_answers_like_a_healthy_vllm(healthy: Mapping[str, Any], name: str) -> None:
    assert _found(HEALTHY, healthy, name) == []


# A real grammar forces the name of a call also on NaN logits; the simulator's answers come from the argmax alone.
@pytest.mark.parametrize("name", sorted({*NAMES} - {"chat_forced_tool_stream"}))
def test_a_simulator_with_nan_logits_answers_like_a_vllm_with_nan_logits(faulty: Mapping[str, Any], name: str) -> None:
    assert _found(FAULTY, faulty, name) == []


@pytest.mark.parametrize("name", [name for name in NAMES if "error" in name or "unknown_model" in name])
def test_errors_are_worded_alike(healthy: Mapping[str, Any], name: str) -> None:
    real, simulated = (answers[name]["response"]["json"]["error"] for answers in (recorded(HEALTHY), healthy))

    assert {**simulated, "message": _plain(simulated["message"])} == {**real, "message": _plain(real["message"])}


def _found(recording: str, answers: Mapping[str, Any], name: str) -> list[str]:
    sentences = departures(recorded(recording)[name]["response"], answers[name]["response"], of="the simulator")
    return [
        sentence for sentence in sentences if not any(route in sentence for route in LEFT_OUT.get(name, LEFT_OUT[""]))
    ]


def _plain(message: str) -> str:
    """Without numbers, which depend on the model, and the details of a validation error."""
    return re.sub(r"\d+", "N", message.split("\n")[0])


def _answers(**settings: Any) -> Iterator[Mapping[str, Any]]:
    with Simulator(SimulatorSettings(model=MODEL, version="0.32.0", dev_mode=True, **settings)) as server:
        yield record(server.base_url.removesuffix("/v1"), MODEL)
