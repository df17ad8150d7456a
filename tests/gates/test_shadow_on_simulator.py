"""Gate 5 against two embedded vLLMs: what each fault of the candidate or of the baseline comes to."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.gates.shadow import canary

from vllm_gate.config.plan import ShadowCanarySettings
from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.server.connect import connect
from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings
from vllm_gate.simulator.traffic import bodies
from vllm_gate.traffic.request import CHAT, Tally, TrafficRequest

LIMITS = ShadowCanarySettings(
    traffic_ratio=1.0, task_success_drop_threshold=0.1, degeneration_rate_threshold=0.1, concurrency=2
)
PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


@dataclass
class Simulated:
    """Seeded chats, with JSON and with tools."""

    count: int
    name: str = "simulated traffic"
    repeatable: bool = True
    tally: Tally = field(default_factory=Tally)

    def requests(self) -> Generator[TrafficRequest | None]:
        for number, body in enumerate(bodies(self.count)):
            yield TrafficRequest(id=f"r-{number}", endpoint=CHAT, body=body, line=number + 1)


def between(candidate: str, baseline: str = "", *, count: int = 200) -> tuple[dict[str, Finding], dict[str, Any]]:
    with ExitStack() as up:
        services = []
        for name, fault, tp in (("under_test", candidate, 4), ("baseline", baseline, 1)):
            settings = SimulatorSettings(tp=tp, faults=tuple(filter(None, [fault])))
            server = up.enter_context(Simulator(settings))
            services.append(
                connect(
                    name=name,
                    base_url=server.base_url,
                    model=settings.model,
                    api="openai",
                    api_key=None,
                    timeout_s=30.0,
                )
            )
        return canary(*services, settings=LIMITS, traffic=Simulated(count))


@pytest.mark.parametrize("fault", ["", "latency_only:0.02"])
def test_a_right_release_passes_at_another_tp_and_when_it_is_slow(fault: str) -> None:
    findings, facts = between(fault)
    assert {finding.verdict for finding in findings.values()} == {PASS}
    assert facts["counts"]["worse"] == facts["counts"]["better"] == 0


@pytest.mark.parametrize(
    ("fault", "check", "signal"),
    [
        ("fp32_as_bf16", "degeneration", "degenerate:text:one_character"),
        ("loop_rate:0.5", "degeneration", "degenerate:text:loop"),
        ("success_drop:0.5", "task_success", "refusal"),
        ("language_mix:0.5", "task_success", "script"),
        ("broken_after:30", "task_success", "degenerate:text:one_character"),
    ],
)
def test_a_fault_of_the_release_fails_and_the_report_says_how(fault: str, check: str, signal: str) -> None:
    findings, facts = between(fault)
    assert findings[check].verdict is FAIL
    assert any(signal in one.title for one in findings[check].evidence), [one.title for one in findings[check].evidence]
    assert facts["counts"]["better"] == 0


def test_a_release_that_breaks_later_was_fine_before() -> None:
    _, facts = between("broken_after:30")
    # the warm-up's requests are among the thirty
    assert 20 <= facts["counts"]["same"] <= 30
    assert facts["counts"]["worse"] <= 20


def test_a_small_share_of_loops_is_allowed() -> None:
    findings, facts = between("loop_rate:0.05")
    assert findings["degeneration"].verdict is PASS
    assert 0 < facts["counts"]["degenerate"] < 10


@pytest.mark.parametrize(("rate", "verdict"), [(0.04, PASS), (0.4, INCONCLUSIVE)])
def test_a_baseline_that_does_not_answer_excludes_pairs_and_fails_no_release(rate: float, verdict: Verdict) -> None:
    findings, facts = between("", f"baseline_flaky:{rate}", count=100)
    assert FAIL not in {finding.verdict for finding in findings.values()}
    assert findings["traffic"].verdict is verdict
    assert facts["counts"]["excluded"] > 0
