"""The recorded answers that the simulator is held to are still those of the real server."""

from __future__ import annotations

import pytest
from tests.e2e.lab.serve import MODEL_NAME, Server
from tests.e2e.variants import serves
from tests.simulator_contract.record import record
from tests.simulator_contract.recordings import FAULTY, HEALTHY, departures, recorded


def test_a_healthy_server_answers_as_recorded(healthy: Server) -> None:
    _compare(healthy, HEALTHY)


@serves(3, "fp32_as_bf16")
def test_a_server_with_nan_logits_answers_as_recorded(variant: Server) -> None:
    _compare(variant, FAULTY)


def _compare(server: Server, recording: str) -> None:
    answers = record(server.root, MODEL_NAME)
    found = {
        name: sentences
        for name, real in recorded(recording).items()
        if (sentences := departures(real["response"], answers[name]["response"], of="the server"))
    }
    if found:
        pytest.fail(f"{recording}.json is out of date:\n" + "\n".join(f"{name}: {found[name]}" for name in found))
