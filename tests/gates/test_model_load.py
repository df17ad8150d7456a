"""Gate 1 against a service and a log that behave as each test says. Time is counted, not waited for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vllm_gate.config.plan import GATE_1_CHECKS, Gates, ModelLoadSettings, Plan, ServiceConfig
from vllm_gate.core.finding import Finding, Location
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import NoAnswer, UnusableAnswer
from vllm_gate.gates.interface import Context
from vllm_gate.gates.model_load import CHECK_NAMES, ModelLoad
from vllm_gate.server.interface import ModelCard, Service
from vllm_gate.server.reply import Answer, Refusal, Reply, Usage

MODEL = "org/model-8B"
ENGINE = (
    "(EngineCore pid=2) INFO 12-01 07:03:21 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: "
    "model='/m', speculative_config=None, tokenizer='/m', skip_tokenizer_init=False, tokenizer_mode=auto, "
    "dtype=torch.bfloat16, max_seq_len=8192, load_format=auto, tensor_parallel_size=1, quantization={quantization}, "
    "enforce_eager=True, kv_cache_dtype=auto, device_config=cpu, seed=0, served_model_name=m"
)
LOADED = "(Worker pid=3) INFO 12-01 07:04:32 [default_loader.py:501] Loading weights took 1.92 seconds"
SERVING = "(APIServer pid=1) INFO 12-01 07:04:42 [entry.py:140] Starting vLLM server on http://127.0.0.1:8000"
DIED_LOG = (
    "Traceback (most recent call last):",
    '  File "/opt/vllm/bin/vllm", line 5, in <module>',
    "RuntimeError: Could not load libtorchcodec. Likely causes: 1. FFmpeg is not properly installed",
)


def healthy_log(quantization: str = "None") -> list[str]:
    return [ENGINE.format(quantization=quantization), LOADED, SERVING]


class Log:
    name = "vllm.log"

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = list(lines)

    def lines(self) -> Iterable[str]:
        return self._lines

    def chunks(self) -> Iterable[bytes]:
        return [f"{line}\n".encode() for line in self._lines]


class Clock:
    """Sleeping passes the time and is all that does."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.time += seconds


class Scripted(Service):
    """A healthy server, of which a test changes what it is about."""

    def __init__(self) -> None:
        self.name, self.model, self.base_url = "under_test", MODEL, "http://127.0.0.1:8000/v1"
        self.cards: tuple[ModelCard, ...] | Exception = (ModelCard(id=MODEL, max_model_len=8192),)
        self.healthy: Callable[[], bool | None] = lambda: True
        self.answer: Answer | Exception = Reply(text="!", token_ids=(0,), usage=Usage(completion_tokens=1))
        self.completion: Answer = Refusal(status=404, message="no completions here")
        self.info: Mapping[str, object] | None = None
        self.detokenized: Callable[[str], str | None] = lambda text: text

    def chat(
        self, messages: Sequence[Mapping[str, object]], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        assert max_tokens == 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def send(self, endpoint: str, body: Mapping[str, object]) -> Answer:
        raise NotImplementedError

    def complete(
        self, prompt: str | Sequence[int], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        return self.completion

    def models(self) -> tuple[ModelCard, ...]:
        if isinstance(self.cards, Exception):
            raise self.cards
        return self.cards

    def health(self) -> bool | None:
        return self.healthy()

    def version(self) -> str | None:
        return "0.32.0"

    def tokenize(self, text: str, *, add_special_tokens: bool = False) -> tuple[int, ...] | None:
        return tuple(map(ord, text))

    def tokenize_chat(self, messages: Sequence[Mapping[str, object]], **extra: object) -> tuple[int, ...] | None:
        return (1, 2, 3)

    def detokenize(self, tokens: Sequence[int]) -> str | None:
        return self.detokenized("".join(map(chr, tokens)))

    def metrics(self) -> Mapping[str, float] | None:
        return None

    def server_info(self) -> Mapping[str, object] | None:
        return self.info


def context(
    service: Scripted, log: Sequence[str] | None = None, matrix: Mapping[str, object] | None = None, **settings: Any
) -> Context:
    clock = Clock()
    under_test = ServiceConfig(
        name="under_test", base_url=service.base_url, model=service.model, log="vllm.log" if log is not None else ""
    )
    plan = Plan(
        services={"under_test": under_test},
        gates=Gates(model_load=ModelLoadSettings(**settings)),
        matrix=matrix or {},
        locations={
            "service.under_test.model": Location("config.toml", 3),
            "service.under_test.base_url": Location("config.toml", 2),
            "matrix.quantization": Location("config.toml", 9),
        },
    )
    return Context(
        plan=plan,
        services={"under_test": service},
        log=None if log is None else Log(log),
        progress=lambda *_, **__: None,
        now=clock.now,
        sleep=clock.sleep,
        rng=np.random.default_rng(0),
    )


def nowhere(base_url: str) -> str:
    """What `readiness.look_around` says when the address is not the container trap."""
    assert base_url == "http://127.0.0.1:8000/v1"
    return ""


def findings(around: Context, elsewhere: Callable[[str], str] = nowhere) -> dict[str, Finding]:
    """What the gate found, by check."""
    gate = ModelLoad(elsewhere=elsewhere)
    return {finding.check: finding for check in gate.checks(around.plan) for finding in check.ask(around)}


def test_a_healthy_server_with_its_log_passes_every_check_without_a_warning() -> None:
    found = findings(context(Scripted(), healthy_log()))
    assert list(found) == list(CHECK_NAMES[1:])
    assert {finding.verdict for finding in found.values()} == {Verdict.PASS}
    assert [finding.warning for finding in found.values()] == [""] * 4


def test_without_a_log_a_healthy_server_passes_and_the_user_is_told_what_was_not_seen() -> None:
    found = findings(context(Scripted()))
    assert {finding.verdict for finding in found.values()} == {Verdict.PASS}
    assert "no log was given" in found["weights_load"].warning
    assert "no log was given" in found["quant_config_parse"].warning


def test_only_the_configured_checks_are_asked() -> None:
    found = findings(context(Scripted(), checks=("weights_load",)))
    assert list(found) == ["weights_load"]
    assert {"known_fault", *GATE_1_CHECKS} == set(CHECK_NAMES)


def test_a_declared_combination_that_is_known_to_corrupt_output_is_warned_of_before_the_server_is_asked() -> None:
    service = Scripted()
    service.healthy = lambda: (_ for _ in ()).throw(AssertionError("asked"))
    around = context(service, matrix={"runtime_version": "vllm-0.25.0", "quantization": "nvfp4"})
    first = ModelLoad(elsewhere=nowhere).checks(around.plan)[0]
    (finding,) = first.ask(around)
    assert (finding.check, finding.verdict) == ("known_fault", Verdict.PASS)
    assert "torchcodec kills every start where FFmpeg's libraries are missing (vLLM PR 47888)" in finding.warning
    assert "0.25.1" in finding.remedy


@pytest.mark.parametrize("version", ["vllm-0.24.0", "vllm-0.25.1"])
def test_a_release_without_the_fault_is_not_warned_of_it(version: str) -> None:
    found = findings(context(Scripted(), matrix={"runtime_version": version}))
    assert "torchcodec" not in (found["known_fault"].warning if "known_fault" in found else "")


def test_a_server_that_starts_slowly_is_waited_for() -> None:
    around = context(Scripted(), timeout_sec=30)
    told: list[tuple[str, int]] = []

    def healthy() -> bool:
        if around.now() < 112:
            raise NoAnswer("connection refused", reason="refused")
        return True

    service = around.under_test
    assert isinstance(service, Scripted)
    service.healthy = healthy

    def progress(message: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        assert (total, unit) == (30, "s")
        told.append((message, done))

    patient = replace(around, progress=progress)
    assert findings(patient)["ready_endpoint"].verdict is Verdict.PASS
    assert around.facts["ready_after_s"] == 12
    assert told[3] == ("waiting for http://127.0.0.1:8000/v1: nothing listens there", 3)


@pytest.mark.parametrize(
    ("reason", "words"), [("refused", "nothing listens there"), ("timeout", "does not answer in time")]
)
def test_an_unreachable_server_is_an_error_that_says_what_was_tried(reason: str, words: str) -> None:
    def unreachable() -> bool:
        raise NoAnswer("GET http://127.0.0.1:8000/health: no luck", reason=reason, hint="look here")

    service = Scripted()
    service.healthy = unreachable
    around = context(service, timeout_sec=5)
    found = findings(around)
    assert {finding.verdict for finding in found.values()} == {Verdict.ERROR}
    ready = found["ready_endpoint"]
    assert ready.symptom == "unreachable"
    assert words in ready.message
    assert "in 5 s (6 tries)" in ready.message
    assert "GET http://127.0.0.1:8000/health" in ready.message
    assert ready.remedy.startswith("look here ")
    assert "timeout_sec" in ready.remedy
    assert ready.location == Location("config.toml", 2)
    assert found["weights_load"].message == "not asked: the server never became ready"
    assert around.now() == 105


def test_a_loopback_address_that_answers_elsewhere_is_explained_while_waiting_and_at_the_end() -> None:
    def refused() -> bool:
        raise NoAnswer("connection refused", reason="refused", hint="is the server up?")

    trap = "127.0.0.1 is the container itself; 172.17.0.1 answers"
    service, told = Scripted(), []
    service.healthy = refused
    around = replace(context(service, timeout_sec=3), progress=lambda message, *_: told.append(message))
    looked: list[str] = []

    def elsewhere(base_url: str) -> str:
        looked.append(base_url)
        return trap

    ready = findings(around, elsewhere)["ready_endpoint"]
    assert looked == ["http://127.0.0.1:8000/v1"]
    assert told == [trap] * 3
    assert trap in ready.message
    assert ready.remedy == "is the server up?"


def test_only_a_refusal_is_looked_for_elsewhere() -> None:
    def unresolved() -> bool:
        raise NoAnswer("the host name does not resolve", reason="dns")

    service = Scripted()
    service.healthy = unresolved
    found = findings(context(service, timeout_sec=2), lambda _: pytest.fail("looked elsewhere"))
    assert "the host name does not resolve" in found["ready_endpoint"].message


def test_what_no_waiting_cures_is_not_waited_for() -> None:
    def refused() -> bool:
        raise NoAnswer("TLS failed: self-signed certificate", reason="tls", hint="check the certificate")

    service = Scripted()
    service.healthy = refused
    around = context(service)
    ready = findings(around)["ready_endpoint"]
    assert (ready.verdict, ready.remedy) == (Verdict.ERROR, "check the certificate")
    assert around.now() == 100


def test_a_server_that_stays_unhealthy_fails() -> None:
    service = Scripted()
    service.healthy = lambda: False
    ready = findings(context(service, timeout_sec=5))["ready_endpoint"]
    assert (ready.verdict, ready.symptom) == (Verdict.FAIL, "not_ready")


def test_what_the_log_hints_at_is_told_when_the_time_is_up() -> None:
    def refused() -> bool:
        raise NoAnswer("connection refused", reason="refused")

    service = Scripted()
    service.healthy = refused
    hint = "Failed to import from vllm._C_AVX2: /opt/vllm/_C_AVX2.abi3.so: undefined symbol: _ZNK3c1010TensorImpl"
    ready = findings(context(service, [*["earlier"] * 30, hint], timeout_sec=2.5))["ready_endpoint"]
    assert ready.verdict is Verdict.ERROR
    assert "its log shows: vLLM's compiled extension does not fit the installed torch" in ready.message
    assert "timeout_sec" in ready.remedy
    assert ready.evidence[0].text == "\n".join(["earlier"] * 19 + [hint])


def test_a_line_of_a_container_log_is_no_place_in_a_file() -> None:
    def refused() -> bool:
        raise NoAnswer("connection refused", reason="refused")

    service = Scripted()
    service.healthy = refused
    around = context(service, [*["earlier"] * 30, *DIED_LOG, "later"])
    config = replace(around.plan.services["under_test"], log="docker:vllm")
    around = replace(around, plan=replace(around.plan, services={"under_test": config}))
    ready = findings(around)["ready_endpoint"]
    assert ready.location is None
    assert ready.evidence[0].text == DIED_LOG[2]
    assert ready.evidence[1].text == "\n".join(["earlier"] * 7 + [*DIED_LOG, "later"])


def test_a_log_that_shows_a_death_ends_the_waiting_at_once_and_names_the_cause() -> None:
    def refused() -> bool:
        raise NoAnswer("connection refused", reason="refused")

    service = Scripted()
    service.healthy = refused
    around = context(service, DIED_LOG, timeout_sec=300)
    ready = findings(around)["ready_endpoint"]
    assert ready.verdict is Verdict.FAIL
    assert "died" in ready.message
    assert ready.symptom
    assert "ffmpeg" in ready.remedy.lower()
    assert ready.location == Location("vllm.log", 3)
    assert around.now() == 100


def test_a_server_that_answers_is_believed_over_an_old_death_in_its_log() -> None:
    assert findings(context(Scripted(), [*DIED_LOG, *healthy_log()]))["ready_endpoint"].verdict is Verdict.PASS


def test_a_wrong_model_lists_what_is_served_and_the_nearest() -> None:
    service = Scripted()
    service.cards = (ModelCard(id="zzz"), ModelCard(id="org/model-8b-instruct"))
    ready = findings(context(service))["ready_endpoint"]
    assert (ready.verdict, ready.symptom) == (Verdict.FAIL, "wrong_model")
    assert ready.message == (
        "'org/model-8B' is not served; the server has 'zzz', 'org/model-8b-instruct' (nearest: 'org/model-8b-instruct')"
    )
    assert ready.location == Location("config.toml", 3)


def test_a_served_model_is_told_with_its_window_where_that_is_known() -> None:
    service = Scripted()
    known = findings(context(service))["ready_endpoint"]
    service.cards = (ModelCard(id=MODEL),)
    unknown = findings(context(service))["ready_endpoint"]
    assert known.message == "org/model-8B is served, up to 8192 tokens (ready after 0 s)"
    assert unknown.message == "org/model-8B is served (ready after 0 s)"


def test_a_gateway_that_lists_no_models_proves_its_model_by_answering() -> None:
    service = Scripted()
    service.healthy = lambda: None
    service.cards = UnusableAnswer("GET /models: HTTP 404")
    ready = findings(context(service))["ready_endpoint"]
    assert ready.verdict is Verdict.PASS
    assert "does not list its models" in ready.warning


@pytest.mark.parametrize(
    ("status", "verdict", "symptom"),
    [
        (404, Verdict.FAIL, "wrong_model"),
        (401, Verdict.ERROR, "no_access"),
        (500, Verdict.FAIL, "http_error"),
    ],
)
def test_a_server_that_neither_lists_nor_answers_does_not_pass(status: int, verdict: Verdict, symptom: str) -> None:
    service = Scripted()
    service.cards = UnusableAnswer(f"GET /models: HTTP {status}")
    service.answer = Refusal(status=status, message="no")
    ready = findings(context(service))["ready_endpoint"]
    assert (ready.verdict, ready.symptom) == (verdict, symptom)
    assert f"HTTP {status}" in ready.message


def test_weights_that_the_log_calls_uninitialised_fail_on_that_line() -> None:
    bad = "ValueError: Following weights were not initialized from checkpoint: {'lm_head.weight'}"
    weights = findings(context(Scripted(), [*healthy_log(), bad]))["weights_load"]
    assert (weights.verdict, weights.symptom) == (Verdict.FAIL, "uninitialized_weights")
    assert weights.location == Location("vllm.log", 4)
    assert weights.evidence[0].text == bad


def test_no_token_is_a_failure_of_the_server_or_an_error_of_the_request() -> None:
    service = Scripted()
    service.answer = Refusal(status=500, message="EngineCore encountered an issue")
    assert findings(context(service))["weights_load"].verdict is Verdict.FAIL
    service.answer = Refusal(status=401, message="no key")
    assert findings(context(service))["weights_load"].verdict is Verdict.ERROR
    service.answer = NoAnswer("no answer within 120 s", reason="timeout", hint="wait")
    weights = findings(context(service))["weights_load"]
    assert (weights.verdict, weights.remedy) == (Verdict.ERROR, "wait")


def test_a_base_model_without_a_chat_template_is_asked_for_a_continuation() -> None:
    service = Scripted()
    service.answer = Refusal(status=400, message="no chat template")
    service.completion = Reply(text=" world")
    assert findings(context(service))["weights_load"].verdict is Verdict.PASS


def test_an_answer_in_which_no_token_can_be_seen_is_not_a_pass() -> None:
    service = Scripted()
    service.answer = Reply()
    assert findings(context(service))["weights_load"].verdict is Verdict.INCONCLUSIVE


def test_a_tokenizer_that_changes_texts_fails_and_shows_them() -> None:
    service = Scripted()
    service.detokenized = lambda text: text.replace("п", "р")
    tokenizer = findings(context(service))["tokenizer_load"]
    assert (tokenizer.verdict, tokenizer.symptom) == (Verdict.FAIL, "tokenizer_mismatch")
    assert tokenizer.message.endswith("come back changed from the tokenizer: Russian")
    assert "back: Перед выруском" in tokenizer.evidence[0].text


def test_a_tokenizer_that_lowers_case_is_only_worth_a_warning() -> None:
    service = Scripted()
    service.detokenized = str.lower
    tokenizer = findings(context(service))["tokenizer_load"]
    assert tokenizer.verdict is Verdict.PASS
    assert "normalises English, Russian" in tokenizer.warning


def test_without_tokenize_the_tokenizer_check_is_inconclusive_never_a_pass() -> None:
    service = Scripted()
    service.detokenized = lambda _: None
    tokenizer = findings(context(service))["tokenizer_load"]
    assert tokenizer.verdict is Verdict.INCONCLUSIVE
    assert "take tokenizer_load out" in tokenizer.remedy


def test_token_ids_of_the_golden_prompts_are_hashed_into_the_facts() -> None:
    around = context(Scripted())
    findings(around)
    assert around.facts["golden_prompt_tokens"] == {
        "deterministic_probe": {"tokens": 3, "sha256": hashlib.sha256(b"1,2,3").hexdigest()}
    }


def test_a_quantisation_other_than_the_declared_one_fails() -> None:
    declared = {"quantization": "nvfp4"}
    same = findings(context(Scripted(), healthy_log("modelopt_fp4"), declared))["quant_config_parse"]
    other = findings(context(Scripted(), healthy_log("fp8"), declared))["quant_config_parse"]
    none = findings(context(Scripted(), healthy_log(), declared))["quant_config_parse"]
    assert same.verdict is Verdict.PASS
    assert (other.verdict, other.symptom, other.measured) == (Verdict.FAIL, "wrong_quantization", "fp8")
    assert none.verdict is Verdict.FAIL
    assert other.location == Location("config.toml", 9)


def test_a_models_name_is_a_declaration_where_something_can_be_seen() -> None:
    service = Scripted()
    service.model = "nvidia/Qwen3.6-27B-NVFP4"
    seen = findings(context(service, healthy_log()))["quant_config_parse"]
    unseen = findings(context(service))["quant_config_parse"]
    assert seen.verdict is Verdict.FAIL
    assert "the model's name says nvfp4" in seen.message
    assert unseen.verdict is Verdict.PASS
    assert "the name says nvfp4" in unseen.warning


def test_a_declared_quantisation_that_nothing_shows_is_inconclusive() -> None:
    quantization = findings(context(Scripted(), matrix={"quantization": "fp8"}))["quant_config_parse"]
    assert quantization.verdict is Verdict.INCONCLUSIVE


def test_server_info_shows_the_quantisation_where_there_is_no_log() -> None:
    service = Scripted()
    service.info = {"vllm_config": {"model_config": {"quantization": "fp8"}}}
    quantization = findings(context(service, matrix={"quantization": "fp8"}))["quant_config_parse"]
    assert (quantization.verdict, quantization.measured) == (Verdict.PASS, "fp8")


def test_nothing_is_asked_again_after_the_last_gate() -> None:
    assert ModelLoad().closing_checks(context(Scripted()).plan) == ()
