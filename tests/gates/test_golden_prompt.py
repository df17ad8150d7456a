"""Gate 3 against a service that answers from a function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from vllm_gate.config.golden import Expectation, GoldenCase
from vllm_gate.config.plan import Gates, GoldenPromptSettings, Plan, ServiceConfig
from vllm_gate.core.finding import Finding, Location
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import NoAnswer, UnusableAnswer
from vllm_gate.gates.golden_prompt import CHECK_NAMES, GoldenPrompt
from vllm_gate.gates.interface import Context
from vllm_gate.gates.questions import probe
from vllm_gate.server.interface import ModelCard, Service
from vllm_gate.server.reply import Answer, Refusal, Reply, TokenLogprobs, ToolCall, Usage

KEY = "gate_config.gate_3_golden_prompt.deterministic_probe"
OK = Reply(text=" OK\n", token_ids=(3925,), finish_reason="stop")
ZEROS = Reply(text="!" * 16, token_ids=(0,) * 16, finish_reason="length")
NAN = Refusal(status=400, message="Out of range float values are not JSON compliant")


@dataclass(frozen=True)
class Request:
    """A chat as the service received it; `number` counts from 0."""

    number: int
    messages: Sequence[Mapping[str, object]]
    max_tokens: int
    stream: bool
    extra: Mapping[str, object]

    @property
    def wants_logprobs(self) -> bool:
        return "logprobs" in self.extra


class Scripted(Service):
    """Answers each chat by a function of the request."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self.name, self.model, self.base_url = "under_test", "m", "http://127.0.0.1:1/v1"
        self.healthy: bool | None = True
        self.dead = False
        self.detokenized: str | None = None
        self.asked: list[Request] = []
        self._answer = answer
        self._lock = threading.Lock()

    def chat(
        self, messages: Sequence[Mapping[str, object]], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        with self._lock:
            request = Request(len(self.asked), messages, max_tokens, stream, extra)
            self.asked.append(request)
        return self._answer(request)

    def send(self, endpoint: str, body: Mapping[str, object]) -> Answer:
        raise NotImplementedError

    def complete(
        self, prompt: str | Sequence[int], *, max_tokens: int, stream: bool = False, **extra: object
    ) -> Answer:
        raise AssertionError("gate 3 asks chats only")

    def models(self) -> tuple[ModelCard, ...]:
        return (ModelCard(id=self.model),)

    def health(self) -> bool | None:
        if self.dead:
            raise NoAnswer("connection refused", reason="refused")
        return self.healthy

    def version(self) -> str | None:
        return None

    def tokenize(self, text: str, *, add_special_tokens: bool = False) -> tuple[int, ...] | None:
        return None

    def tokenize_chat(self, messages: Sequence[Mapping[str, object]], **extra: object) -> tuple[int, ...] | None:
        return None

    def detokenize(self, tokens: Sequence[int]) -> str | None:
        assert tokens
        return self.detokenized

    def metrics(self) -> Mapping[str, float] | None:
        return None

    def server_info(self) -> Mapping[str, object] | None:
        return None


def context(service: Service, **settings: Any) -> Context:
    plan = Plan(
        services={"under_test": ServiceConfig(name="under_test", base_url=service.base_url, model="m")},
        gates=Gates(golden_prompt=GoldenPromptSettings(**settings)),
        locations={KEY: Location("settings.json", 17, 7)},
    )
    return Context(
        plan=plan,
        services={"under_test": service},
        log=None,
        progress=lambda *_, **__: None,
        now=lambda: 0.0,
        sleep=lambda _: None,
        rng=np.random.default_rng(0),
    )


def ask(service: Service, **settings: Any) -> Finding:
    """The finding of the deterministic probe."""
    around = context(service, **settings)
    (check,) = GoldenPrompt().checks(around.plan)
    (finding,) = check.ask(around)
    return finding


def test_a_healthy_server_passes_twenty_of_twenty() -> None:
    service = Scripted(lambda _: OK)
    finding = ask(service)
    assert finding.verdict is Verdict.PASS
    assert finding.message == (
        "20 of 20 answers to the deterministic probe are right (1 and 16 at a time, whole and streamed)"
    )
    assert (finding.measured, finding.threshold, finding.samples) == (1.0, 1.0, 20)
    assert finding.interval is not None
    assert finding.interval.low == pytest.approx(0.025 ** (1 / 20))
    assert sum(request.stream for request in service.asked) == 10


def test_the_probe_is_sent_exactly_as_configured() -> None:
    service = Scripted(lambda _: Reply(text="YES"))
    finding = ask(service, deterministic_probe="  Say YES ", expected_output="YES", max_tokens=3, temperature=0.25)
    first = service.asked[0]
    assert finding.verdict is Verdict.PASS
    assert first.messages == ({"role": "user", "content": "  Say YES "},)
    assert (first.max_tokens, first.extra["temperature"]) == (3, 0.25)


def test_nan_is_named_proven_and_located_within_ten_requests() -> None:
    service = Scripted(lambda request: NAN if request.wants_logprobs else ZEROS)
    finding = ask(service)
    assert (finding.verdict, finding.symptom, finding.measured) == (Verdict.FAIL, "nan_argmax", 0.0)
    assert "16 × token id 0, the argmax of NaN logits" in finding.message
    assert "HTTP 400" in finding.message
    assert finding.location == Location("settings.json", 17, 7)
    assert "VLLM_COMPUTE_NANS_IN_LOGITS" in finding.remedy
    assert len(service.asked) <= 10
    titles = [piece.title for piece in finding.evidence]
    assert titles == ["chat completion", "what came back", "the same request with logprobs", "all answers"]
    assert '"content": "Reply with exactly: OK"' in finding.evidence[0].text
    assert "stream" not in finding.evidence[0].text
    assert "token_ids: [0, 0" in finding.evidence[1].text


def test_nan_behind_an_empty_text_without_token_ids_is_proven_by_logprobs() -> None:
    silent = Reply(text="", finish_reason="length", usage=Usage(completion_tokens=16))
    proven = ask(Scripted(lambda request: NAN if request.wants_logprobs else silent))
    unproven = ask(Scripted(lambda _: silent))
    assert proven.symptom == "nan_argmax"
    assert unproven.symptom == "empty_text"


def test_a_nonfinite_number_in_a_right_answer_is_a_failure() -> None:
    finding = ask(Scripted(lambda _: Reply(text="OK", nonfinite=1)))
    assert (finding.verdict, finding.symptom) == (Verdict.FAIL, "nan_argmax")


def test_uniform_noise_is_told_by_the_logprobs_of_a_second_request() -> None:
    row = dict.fromkeys(range(5), -9.1)
    noise = Reply(text="qx vu", logprobs=(TokenLogprobs(token_id=1, logprob=-9.1, top=row),) * 2)
    assert ask(Scripted(lambda _: noise)).symptom == "uniform_noise"


def test_logprobs_of_a_second_answer_that_was_right_do_not_count() -> None:
    sure = Reply(text="OK", logprobs=(TokenLogprobs(token_id=1, logprob=-9.1),))
    finding = ask(Scripted(lambda request: sure if request.wants_logprobs else Reply(text="No.")))
    assert finding.symptom == "wrong_answer"


def test_token_ids_that_read_back_as_another_text_mean_the_wrong_tokenizer() -> None:
    service = Scripted(lambda _: Reply(text="Boys Being", token_ids=(7, 8)))
    service.detokenized = "OK<|im_end|>"
    assert ask(service).symptom == "tokenizer_mismatch"


def test_nan_inside_the_logprobs_of_a_second_request_is_a_proof() -> None:
    finding = ask(Scripted(lambda request: Reply(text="No.", nonfinite=3 if request.wants_logprobs else 0)))
    assert finding.symptom == "nan_argmax"
    assert "holds NaN" in finding.message


def test_wrong_only_when_streamed() -> None:
    finding = ask(Scripted(lambda request: Reply(text="O") if request.stream else OK))
    assert (finding.verdict, finding.symptom, finding.measured) == (Verdict.FAIL, "only_streaming", 0.5)
    assert finding.message.startswith("10 of 20 answers to the deterministic probe are wrong, only when streamed: ")
    assert "concurrency   1, streamed    : 0 of 2 right" in finding.evidence[-1].text
    assert '"stream": true' in finding.evidence[0].text


def test_wrong_only_under_load() -> None:
    finding = ask(Scripted(lambda request: Reply(text=" Steps4 Let the0") if request.number == 9 else OK))
    assert (finding.verdict, finding.symptom, finding.measured) == (Verdict.FAIL, "only_under_load", 0.95)
    assert "only under load" in finding.message
    assert "--no-async-scheduling" in finding.remedy


def test_sixteen_requests_are_really_under_way_at_once() -> None:
    together = threading.Barrier(16, timeout=5)

    def answer(request: Request) -> Answer:
        if request.number >= 4:
            together.wait()
        return OK

    assert ask(Scripted(answer)).verdict is Verdict.PASS


def test_a_rate_above_the_threshold_passes_with_a_warning() -> None:
    finding = ask(Scripted(lambda request: Reply(text="ok") if request.number == 9 else OK), pass_rate_threshold=0.95)
    assert finding.verdict is Verdict.PASS
    assert "1 wrong: close to 'OK'" in finding.warning


def test_http_500_is_a_failure_and_not_read_as_the_models_words() -> None:
    service = Scripted(lambda _: Refusal(status=500, message="EngineCore encountered an issue"))
    finding = ask(service)
    assert (finding.verdict, finding.symptom) == (Verdict.FAIL, "http_error")
    assert "EngineCore encountered an issue" in finding.message
    assert len(service.asked) <= 10


@pytest.mark.parametrize(
    ("status", "symptom"),
    [(400, "refused_request"), (401, "no_access"), (404, "refused_request"), (429, "refused_request")],
)
def test_a_request_that_the_server_refuses_proves_nothing(status: int, symptom: str) -> None:
    finding = ask(Scripted(lambda _: Refusal(status=status, message="no")))
    assert (finding.verdict, finding.symptom) == (Verdict.ERROR, symptom)
    assert f"HTTP {status}" in finding.message


def test_a_hang_is_a_failure_when_the_server_calls_itself_healthy_and_costs_two_timeouts() -> None:
    def hang(_: Request) -> Answer:
        raise NoAnswer("no answer within 120 s", reason="timeout")

    service = Scripted(hang)
    finding = ask(service)
    assert (finding.verdict, finding.symptom) == (Verdict.FAIL, "hang")
    assert len(service.asked) == 2


def test_a_server_that_dies_midway_is_an_error_and_is_left_alone() -> None:
    def answer(request: Request) -> Answer:
        if request.number < 3:
            return OK
        service.dead = True
        raise NoAnswer("connection refused", reason="refused")

    service = Scripted(answer)
    finding = ask(service)
    assert (finding.verdict, finding.symptom) == (Verdict.ERROR, "server_died")
    assert "right answers so far: 3" in finding.message
    assert len(service.asked) == 4


def test_wrong_answers_before_a_death_still_fail() -> None:
    def answer(request: Request) -> Answer:
        if request.number == 0:
            return ZEROS
        service.dead = True
        raise NoAnswer("connection refused", reason="refused")

    service = Scripted(answer)
    assert ask(service).verdict is Verdict.FAIL


def test_one_dropped_connection_is_an_error_although_the_rest_is_right() -> None:
    def answer(request: Request) -> Answer:
        if request.number == 9:
            raise NoAnswer("connection reset", reason="reset")
        return OK

    finding = ask(Scripted(answer))
    assert (finding.verdict, finding.symptom) == (Verdict.ERROR, "no_answer")
    assert "right answers so far: 19" in finding.message


def test_an_answer_that_no_client_can_read_is_an_error_with_its_hint() -> None:
    def answer(_: Request) -> Answer:
        raise UnusableAnswer("the body has no choices", hint="is this an OpenAI endpoint?")

    finding = ask(Scripted(answer))
    assert finding.verdict is Verdict.ERROR
    assert finding.remedy == "is this an OpenAI endpoint?"


def test_a_bug_in_a_service_is_not_swallowed() -> None:
    def answer(_: Request) -> Answer:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(Scripted(answer))


def test_the_probe_is_asked_again_after_the_last_gate_under_the_same_name() -> None:
    service = Scripted(lambda request: NAN if request.wants_logprobs else ZEROS)
    around = context(service)
    (check,) = GoldenPrompt().closing_checks(around.plan)
    (finding,) = check.ask(around)
    assert check.name == finding.check == "deterministic_probe"
    assert "after all other gates" in finding.message


def case(name: str, kind: str, value: object, line: int, **fields: Any) -> GoldenCase:
    return GoldenCase(
        id=name,
        messages=({"role": "user", "content": name},),
        expect=Expectation(kind, value),
        location=Location("golden.yaml", line),
        **fields,
    )


def ask_suite(service: Service, *cases: GoldenCase, **settings: Any) -> list[Finding]:
    around = context(service, **settings)
    around = replace(around, plan=replace(around.plan, golden_cases=cases))
    _, check = GoldenPrompt().checks(around.plan)
    return list(check.ask(around))


CASES = (
    case("capital", "contains", "Paris", 3),
    case("sum", "regex", r"^4$", 7, max_tokens=4, options={"temperature": 0.5}),
    case("color", "one_of", ("red", "blue"), 11),
)
ANSWERS = {"capital": "It is Paris.", "sum": "4", "color": "blue"}


def answer_well(request: Request) -> Answer:
    return Reply(text=ANSWERS[str(request.messages[0]["content"])])


def test_a_suite_that_is_answered_rightly_is_one_finding() -> None:
    service = Scripted(answer_well)
    (finding,) = ask_suite(service, *CASES)
    assert finding.verdict is Verdict.PASS
    assert finding.message.startswith("30 of 30 answers to 3 golden prompts are right")
    sums = [request for request in service.asked if request.messages[0]["content"] == "sum"]
    assert {(request.max_tokens, request.extra["temperature"]) for request in sums} == {(4, 0.5)}


def test_each_failing_case_is_a_finding_at_its_own_line() -> None:
    wrong = {**ANSWERS, "sum": "5", "color": "blue blue blue blue"}
    found = ask_suite(Scripted(lambda request: Reply(text=wrong[str(request.messages[0]["content"])])), *CASES)
    assert [finding.verdict for finding in found] == [Verdict.FAIL, Verdict.FAIL]
    assert [finding.location for finding in found] == [Location("golden.yaml", 7), Location("golden.yaml", 11)]
    assert "20 of 30 answers to 3 golden prompts are wrong: sum: a different answer: '5'; it does not match" in (
        found[0].message
    )
    assert "10 of 10 answers to the golden prompt 'color' are wrong" in found[1].message
    assert found[1].symptom == "one_token_repeated"
    assert found[0].evidence[-1].text.endswith("wrong: color, sum")


def test_a_suite_of_which_the_first_eight_answers_are_wrong_is_given_up() -> None:
    service = Scripted(lambda _: Reply(text="no"))
    cases = [case(f"case{number}", "exact", "yes", number) for number in range(1, 9)]
    found = ask_suite(service, *cases)
    assert len([request for request in service.asked if not request.wants_logprobs]) == 8
    assert [finding.location.line for finding in found if finding.location] == [1, 2, 3, 4]
    assert found[1].message == "2 of 2 answers to the golden prompt 'case2' are wrong: a different answer: 'no'"


def test_a_suite_above_its_threshold_passes_with_the_wrong_case_named() -> None:
    def answer(request: Request) -> Answer:
        return Reply(text="Rome") if request.number == 20 else answer_well(request)

    (finding,) = ask_suite(Scripted(answer), *CASES, pass_rate_threshold=0.9)
    assert finding.verdict is Verdict.PASS
    assert finding.warning.startswith("1 wrong: ")


def test_a_case_that_fails_inside_a_suite_that_passes_is_no_failure() -> None:
    wrong = {**ANSWERS, "sum": "5"}
    service = Scripted(lambda request: Reply(text=wrong[str(request.messages[0]["content"])]))
    (finding,) = ask_suite(service, *CASES, pass_rate_threshold=0.6)
    assert finding.verdict is Verdict.PASS


def test_a_case_that_passes_inside_a_suite_that_fails_is_no_failure() -> None:
    def answer(request: Request) -> Answer:
        wrong = {**ANSWERS, "sum": "5", "color": "blue" if request.number != 5 else "green"}
        return Reply(text=wrong[str(request.messages[0]["content"])])

    (finding,) = ask_suite(Scripted(answer), *CASES, pass_rate_threshold=0.9)
    assert finding.location == Location("golden.yaml", 7)


def test_a_suite_is_not_asked_where_the_probe_has_shown_nan_logits() -> None:
    service = Scripted(lambda request: NAN if request.wants_logprobs else ZEROS)
    around = context(service)
    around = replace(around, plan=replace(around.plan, golden_cases=CASES))
    asked_by_check = []
    found = []
    for check in GoldenPrompt().checks(around.plan):
        found += list(check.ask(around))
        asked_by_check.append(len(service.asked))
    assert [finding.verdict for finding in found] == [Verdict.FAIL, Verdict.SKIPPED]
    assert asked_by_check[0] == asked_by_check[1]


def test_a_tool_call_that_was_cut_is_explained_by_its_rule() -> None:
    called = Reply(tool_calls=(ToolCall(id="1", name="add", arguments='{"a": '),), finish_reason="length")
    found = ask_suite(Scripted(lambda _: called), case("call", "tool_call", {"name": "add"}, 3))
    assert found[0].verdict is Verdict.FAIL
    assert "the arguments of add are not JSON" in found[0].message


def test_every_check_is_listed_by_name() -> None:
    plan = context(Scripted(lambda _: OK)).plan
    names = {check.name for check in (*GoldenPrompt().checks(plan), *GoldenPrompt().closing_checks(plan))}
    assert names <= set(CHECK_NAMES)
    assert probe(plan).prompt == "Reply with exactly: OK"
