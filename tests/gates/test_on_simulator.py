"""Gates 1 and 3 against the embedded vLLM: the healthy server passes, and each fault is named for what it is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from vllm_gate.config.plan import Gates, GoldenPromptSettings, ModelLoadSettings, Plan, ServiceConfig
from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.golden_prompt import GoldenPrompt
from vllm_gate.gates.interface import Context
from vllm_gate.gates.model_load import CHECK_NAMES, ModelLoad
from vllm_gate.server.connect import connect
from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings


class Log:
    """The simulator's start-up log, as a server under test would write it."""

    name = "vllm.log"

    def __init__(self, server: Simulator) -> None:
        self._server = server

    def lines(self) -> Iterable[str]:
        return self._server.log_lines

    def chunks(self) -> Iterable[bytes]:
        return [f"{line}\n".encode() for line in self._server.log_lines]


@contextmanager
def simulated(*faults: str, timeout_s: float = 30.0, load_s: float = 30.0, **settings: Any) -> Iterator[Context]:
    """A context whose server under test is a fresh simulator."""
    with Simulator(SimulatorSettings(faults=faults, **settings)) as server:
        config = ServiceConfig(name="under_test", base_url=server.base_url, model=SimulatorSettings().model)
        plan = Plan(
            services={"under_test": config},
            gates=Gates(
                model_load=ModelLoadSettings(timeout_sec=load_s), golden_prompt=GoldenPromptSettings(max_tokens=16)
            ),
            matrix={"quantization": "nvfp4"},
        )
        service = connect(
            name="under_test",
            base_url=config.base_url,
            model=config.model,
            api="openai",
            api_key=None,
            timeout_s=timeout_s,
        )
        yield Context(
            plan=plan,
            services={"under_test": service},
            log=Log(server),
            progress=lambda *_, **__: None,
            now=time.monotonic,
            sleep=lambda seconds: time.sleep(min(seconds, 0.1)),
            rng=np.random.default_rng(0),
        )


def probe(context: Context) -> Finding:
    (check,) = GoldenPrompt().checks(context.plan)
    (finding,) = check.ask(context)
    return finding


def load(context: Context) -> dict[str, Finding]:
    gate = ModelLoad(elsewhere=lambda _: "")
    return {finding.check: finding for check in gate.checks(context.plan) for finding in check.ask(context)}


def test_the_healthy_server_loads_and_passes_twenty_of_twenty() -> None:
    with simulated() as context:
        found = load(context)
        finding = probe(context)
    assert {name: (one.verdict, one.warning) for name, one in found.items()} == dict.fromkeys(
        CHECK_NAMES[1:], (Verdict.PASS, "")
    )
    assert finding.verdict is Verdict.PASS
    assert finding.message.startswith("20 of 20")


@pytest.mark.parametrize(
    ("fault", "symptom"),
    [
        ("fp32_as_bf16", "nan_argmax"),
        ("nan_logits", "nan_argmax"),
        ("loop", "loop"),
        ("empty_text", "empty_text"),
        ("uniform_noise", "uniform_noise"),
        ("near_miss", "near_miss"),
        ("refusal", "refusal"),
        ("wrong_script", "wrong_script"),
        ("truncated", "truncated"),
        ("tokenizer_mismatch", "tokenizer_mismatch"),
        ("only_under_load:2", "only_under_load"),
        ("only_streaming", "only_streaming"),
        ("http_500", "http_error"),
    ],
)
def test_each_fault_of_the_output_fails_and_is_named(fault: str, symptom: str) -> None:
    with simulated(fault) as context:
        finding = probe(context)
    assert (finding.verdict, finding.symptom) == (Verdict.FAIL, symptom), finding.message
    assert finding.remedy


def test_a_hang_fails_after_two_timeouts() -> None:
    with simulated("hang", timeout_s=1.0) as context:
        finding = probe(context)
    assert (finding.verdict, finding.symptom) == (Verdict.FAIL, "hang")


def test_nan_is_proven_in_words() -> None:
    with simulated("fp32_as_bf16") as context:
        finding = probe(context)
    assert "16 × token id 0, the argmax of NaN logits" in finding.message
    assert "Out of range float values" in finding.message


def test_the_misread_norm_weights_do_no_harm_on_one_gpu() -> None:
    with simulated("fp32_as_bf16", tp=1) as context:
        assert probe(context).verdict is Verdict.PASS


def test_a_slow_start_is_waited_for() -> None:
    with simulated("slow_start:1") as context:
        assert load(context)["ready_endpoint"].verdict is Verdict.PASS


def test_a_start_that_takes_longer_than_allowed_is_unreachable() -> None:
    with simulated("slow_start:30", load_s=0.5) as context:
        ready = load(context)["ready_endpoint"]
    assert (ready.verdict, ready.symptom) == (Verdict.ERROR, "unreachable")


def test_a_death_at_start_is_diagnosed_from_the_log_without_waiting() -> None:
    with simulated("dies_at_start", load_s=300) as context:
        began = time.monotonic()
        ready = load(context)["ready_endpoint"]
    assert time.monotonic() - began < 10
    assert (ready.verdict, ready.symptom) == (Verdict.FAIL, "torchcodec_import")
    assert "FFmpeg" in ready.message
    assert "0.25.1" in ready.remedy


def test_another_model_is_named() -> None:
    with simulated("wrong_model") as context:
        ready = load(context)["ready_endpoint"]
    assert (ready.verdict, ready.symptom, ready.measured) == (Verdict.FAIL, "wrong_model", "some-other-model")


def test_a_gateway_leaves_the_tokenizer_inconclusive_and_still_answers_the_probe() -> None:
    with simulated(gateway=True) as context:
        found = load(context)
        finding = probe(context)
    assert found["ready_endpoint"].verdict is Verdict.PASS
    assert found["tokenizer_load"].verdict is Verdict.INCONCLUSIVE
    assert finding.verdict is Verdict.PASS
