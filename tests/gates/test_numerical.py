"""Gate 2 on simulated servers: each numeric fault is seen as what it is, healthy ones pass, limits are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vllm_gate.app.capture import capture
from vllm_gate.app.observers import Quiet
from vllm_gate.app.run import Clock
from vllm_gate.app.runner import Selection, run_gates
from vllm_gate.app.services import connect_all
from vllm_gate.config.plan import Gates, NumericalSettings, Plan, ServiceConfig
from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.consistency.tracing import prompts, prose
from vllm_gate.gates.interface import Context
from vllm_gate.gates.numerical import CHECK_NAMES, Numerical
from vllm_gate.judge.snapshot import to_bytes
from vllm_gate.server.reply import Answer, Refusal
from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings

SMALL = NumericalSettings(prompts=20, max_prompts=20, positions=8)
RELEASE = SimulatorSettings(tp=4)
BASELINE = SimulatorSettings(tp=1)


@contextmanager
def servers(**settings: SimulatorSettings) -> Iterator[dict[str, ServiceConfig]]:
    with ExitStack() as stack:
        configs = {}
        for name, wanted in settings.items():
            label = name.replace("tp_", "tp.")
            server = stack.enter_context(Simulator(wanted))
            configs[label] = ServiceConfig(name=label, base_url=server.base_url, model=wanted.model)
        yield configs


def findings(
    services: Mapping[str, ServiceConfig],
    settings: NumericalSettings = SMALL,
    *,
    tp: int = 4,
    snapshots: Mapping[str, bytes] | None = None,
) -> dict[str, Finding]:
    """The gate's findings by check; the last one of a check that gave several."""
    plan = Plan(services=services, gates=Gates(numerical=settings), matrix={"parallelism_tp": tp})
    context = Context(
        plan=plan,
        services=connect_all(plan, None),
        log=None,
        progress=lambda *_, **__: None,
        now=Clock().now,
        sleep=Clock().sleep,
        rng=np.random.default_rng(5),
        snapshots=snapshots or {},
    )
    (result,) = run_gates(Selection((Numerical(),), {}), context, Quiet(), Clock().now)
    assert {finding.check for finding in result.findings} <= set(CHECK_NAMES)
    return {finding.check: finding for finding in result.findings}


def ask(release: SimulatorSettings = RELEASE, baseline: SimulatorSettings = BASELINE) -> dict[str, Finding]:
    with servers(under_test=release, baseline=baseline) as services:
        return findings(services)


def test_a_healthy_release_with_another_tp_passes_every_check() -> None:
    found = ask()
    assert {check: finding.verdict for check, finding in found.items()} == {
        "nan_inf": Verdict.PASS,
        "alignment": Verdict.PASS,
        "logit_drift": Verdict.PASS,
        "decode_drift": Verdict.PASS,
        "perplexity_drift": Verdict.PASS,
    }
    assert found["logit_drift"].samples == 160
    assert isinstance(found["logit_drift"].measured, float)
    assert 0.001 < found["logit_drift"].measured < 0.015


def test_the_same_server_twice_does_not_drift_at_all() -> None:
    with servers(under_test=BASELINE) as services:
        twice = {**services, "baseline": replace(services["under_test"], name="baseline")}
        found = findings(twice, replace(SMALL, concurrency=1))
    assert found["logit_drift"].measured == 0.0
    assert found["perplexity_drift"].measured == 0.0


@pytest.mark.parametrize("fault", ["fp32_as_bf16", "nan_logits", "sentinel"])
def test_nan_is_found_with_few_requests_and_ends_the_gate(fault: str) -> None:
    with ExitStack() as stack:
        broken = stack.enter_context(Simulator(replace(RELEASE, faults=(fault,))))
        healthy = stack.enter_context(Simulator(BASELINE))
        services = {
            name: ServiceConfig(name=name, base_url=server.base_url, model=RELEASE.model)
            for name, server in (("under_test", broken), ("baseline", healthy))
        }
        found = findings(services)
        assert broken.requests <= 10
    assert found["nan_inf"].verdict is Verdict.FAIL
    assert found["nan_inf"].symptom == "nan_logits"
    assert found["logit_drift"].verdict is Verdict.SKIPPED


@pytest.mark.parametrize("fault", ["nan_rare:50", "uniform_noise"])
def test_nan_that_shows_later_is_a_failure_of_nan_inf_and_no_error(fault: str) -> None:
    found = ask(replace(RELEASE, faults=(fault,)))
    assert found["nan_inf"].verdict is Verdict.FAIL


def test_a_server_that_counts_nan_itself_is_believed() -> None:
    found = ask(replace(RELEASE, faults=("nan_rare:60",), count_nans=True))
    assert found["nan_inf"].verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("noise:0.1", "logit_drift"),
        ("one_rank_dead", "logit_drift"),
        ("tp_only", "logit_drift"),
        ("processed_logprobs", "logit_drift"),
        ("one_rank_dead", "perplexity_drift"),
        ("noise:0.1", "decode_drift"),
    ],
)
def test_drift_is_found(fault: str, check: str) -> None:
    finding = ask(replace(RELEASE, faults=(fault,)))[check]
    assert finding.verdict is Verdict.FAIL, finding.message
    assert finding.interval is not None


def test_a_fault_that_needs_tp_shows_in_the_variants_and_not_in_tp_1() -> None:
    settings = replace(SMALL, compare_tp_variants=(1, 4))
    with servers(under_test=replace(RELEASE, faults=("tp_only",)), tp_1=BASELINE) as services:
        found = findings(services, settings)
    assert found["tp_variants"].verdict is Verdict.FAIL
    assert "TP=4 drifts from TP=1" in found["tp_variants"].message


def test_a_missing_variant_is_inconclusive_with_the_lines_to_add() -> None:
    settings = replace(SMALL, compare_tp_variants=(1, 4))
    with servers(under_test=RELEASE, baseline=BASELINE) as services:
        found = findings(services, settings)
    assert found["tp_variants"].verdict is Verdict.INCONCLUSIVE
    assert "[service.tp.1]" in found["tp_variants"].remedy
    assert found["logit_drift"].verdict is Verdict.PASS


def test_nothing_to_compare_with_is_inconclusive() -> None:
    with servers(under_test=RELEASE) as services:
        found = findings(services)
    assert found["logit_drift"].verdict is Verdict.INCONCLUSIVE
    assert "[service.baseline]" in found["logit_drift"].remedy


def test_a_gateway_without_logprobs_is_inconclusive_and_says_what_it_lacks() -> None:
    found = ask(baseline=replace(BASELINE, gateway=True))
    assert found["logit_drift"].verdict is Verdict.INCONCLUSIVE
    assert "baseline gives no logprobs" in found["logit_drift"].message


def test_a_server_that_caps_k_is_asked_for_less_and_that_is_told() -> None:
    found = ask(baseline=replace(BASELINE, max_logprobs=5))
    assert found["logit_drift"].verdict is Verdict.PASS
    assert "at most 5 tokens a position" in found["logit_drift"].warning


def test_a_server_that_ignores_prompt_logprobs_is_compared_by_its_own_decoding() -> None:
    found = ask(baseline=replace(BASELINE, prompt_logprobs=False))
    assert found["logit_drift"].verdict is Verdict.PASS
    assert "baseline gives no prompt logprobs, so only its own decoding" in found["logit_drift"].warning


@pytest.mark.parametrize(
    ("field", "message", "verdict", "told"),
    [
        ("prompt_logprobs", "Unknown field: prompt_logprobs", Verdict.PASS, "baseline gives no prompt logprobs"),
        ("prompt_logprobs", "prompt_logprobs must be at most 0", Verdict.PASS, "baseline gives no prompt logprobs"),
        ("logprobs", "logprobs is not supported", Verdict.PASS, "baseline gives no logprobs of what it generates"),
        ("logprobs", "best_of is too large", Verdict.ERROR, "baseline refuses a completion: HTTP 400: best_of"),
    ],
)
def test_a_server_that_refuses_a_field_is_asked_without_it(
    monkeypatch: pytest.MonkeyPatch, field: str, message: str, verdict: Verdict, told: str
) -> None:
    from vllm_gate.server.openai_api import OpenAIService

    plain = OpenAIService.complete
    sent: list[str] = []

    def refusing(self: OpenAIService, prompt: Any, **fields: Any) -> Answer:
        if self.name != "baseline" or field not in fields:
            return plain(self, prompt, **fields)
        sent.append(field)
        return Refusal(status=400, message=message)

    monkeypatch.setattr(OpenAIService, "complete", refusing)
    found = ask()["logit_drift"]
    assert found.verdict is verdict
    assert told in f"{found.message} {found.warning}"
    assert len(sent) <= 3 * SMALL.concurrency, "the field is not asked for over and over"
    capped = "at most 5 tokens a position" in found.warning
    assert capped is ("at most" in message), "a field that is not taken is not one that is capped"


def test_another_tokenizer_is_a_finding_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm_gate.server.openai_api import OpenAIService

    plain = OpenAIService.tokenize

    def shifted(self: OpenAIService, text: str, *, add_special_tokens: bool = False) -> tuple[int, ...] | None:
        tokens = plain(self, text, add_special_tokens=add_special_tokens)
        return tokens if self.name == "baseline" or tokens is None else (7, *tokens)

    monkeypatch.setattr(OpenAIService, "tokenize", shifted)
    found = ask()
    assert found["alignment"].verdict is Verdict.FAIL
    assert found["alignment"].symptom == "tokenizer_mismatch"


def test_a_capture_stands_for_a_service_that_is_down() -> None:
    with servers(under_test=BASELINE) as services:
        plan = Plan(services=services, gates=Gates(numerical=SMALL))
        content = to_bytes(capture(plan, services["under_test"], Clock(), np.random.default_rng(1)))
    stored = ServiceConfig(name="baseline", snapshot="baseline.capture")
    with servers(under_test=RELEASE) as services:
        healthy = findings({**services, "baseline": stored}, snapshots={"baseline": content})
    with servers(under_test=replace(RELEASE, faults=("noise:0.1",))) as services:
        drifting = findings({**services, "baseline": stored}, snapshots={"baseline": content})
    assert healthy["logit_drift"].verdict is Verdict.PASS
    assert drifting["logit_drift"].verdict is Verdict.FAIL


def test_the_shipped_texts_are_many_and_of_many_kinds() -> None:
    ids = [prompt_id for prompt_id, _ in prompts()]
    assert len(ids) == len(set(ids)) >= 64
    assert {"chinese", "arabic", "thai", "code", "json", "maths", "dialogue", "repetitive", "entropy"} <= {
        prompt_id.rpartition("-")[0] for prompt_id in ids
    }
    first = {prompt_id.rpartition("-")[0] for prompt_id in ids[:32]}
    assert {"chinese", "arabic", "thai", "code", "json", "maths", "dialogue", "repetitive", "entropy"} <= first
    assert sum(len(text.split()) for _, text in prose()) > 1_700
