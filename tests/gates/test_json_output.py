"""JSON answers on scripted servers: what is sent, how often, and what is made of what comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

from vllm_gate.config.plan import Gates, LongContextSettings, Plan, ServiceConfig
from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.capability.json_cases import PROOF, corpus, questions
from vllm_gate.gates.capability.json_output import ask_json
from vllm_gate.gates.capability.json_plain import ask_plain_json
from vllm_gate.gates.capability.known import THINKING, Known
from vllm_gate.gates.interface import Context
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal, Reply

Say = Callable[[Mapping[str, Any], int], Answer]


@dataclass
class Server:
    """`say` answers the n-th request for JSON; anything else is answered "OK"."""

    say: Say
    hello: Reply = field(default_factory=lambda: Reply(text="OK", finish_reason="stop"))
    bodies: list[Mapping[str, Any]] = field(default_factory=list)
    name: str = "under_test"
    model: str = "m"

    def chat(self, messages: Sequence[Mapping[str, object]], *, max_tokens: int, **extra: Any) -> Answer:
        said = str(messages[-1]["content"])
        body = {"said": said, "max_tokens": max_tokens, **extra}
        if "JSON" not in said and "response_format" not in extra:
            return self.hello
        if said == PROOF.prompt:
            return Reply(text='{"mark": "zq-7f3a"}', finish_reason="stop")
        self.bodies.append(body)
        return self.say(body, len(self.bodies))


def right(body: Mapping[str, Any], _: int) -> Answer:
    """A valid answer for each shipped schema, by hand."""
    schema = body["response_format"]["json_schema"]["name"] if "response_format" in body else _named(body["said"])
    return Reply(text=json.dumps(VALID[schema]), finish_reason="stop")


def _named(said: str) -> str:
    return next(case.id for case in corpus() if said.startswith(case.prompt))


PERSON = {"name": "Ada", "children": [{"name": "Bo", "children": [{"name": "Cy"}]}]}
COMPUTER = next(case for case in corpus() if case.id == "large")
VALID: Mapping[str, Any] = {
    "flat": {"title": "a", "pages": 1, "price": 2.5, "in_print": True},
    "nested": {"order": 1, "customer": {"name": "a", "address": {"street": "b", "city": "c", "zip": "d"}}},
    "array": {"cities": [{"name": "Oslo", "population": 700}]},
    "enum": {"label": "negative", "sure": True},
    "nullable": {"first": "Ada", "second": None, "age": 36},
    "bounds": {"rating": 5, "share": 0.5},
    "unicode": {"japanese": "水", "arabic": "ماء", "greek": "νερό"},
    "union": {"value": "unknown", "unit": "m"},
    "recursive": PERSON,
    "large": {
        key: {"string": "a", "integer": 1, "number": 1.5, "boolean": True}[value["type"]]
        for key, value in COMPUTER.schema["properties"].items()
    },
    "tuple": {"name": "p", "point": [1, 2.5, -3]},
    "flags": {"has_wheels": True, "has_engine": False, "can_fly": False},
    "map": {"stock": {"apples": 3, "pears": 0}},
}


def ask(check: Callable[..., Any], server: Server, baseline: Server | None = None, **settings: Any) -> Finding:
    config = {"under_test": ServiceConfig(name="under_test", base_url="http://127.0.0.1:1", model="m")}
    services = {"under_test": server} | ({"baseline": baseline} if baseline else {})
    context = Context(
        plan=Plan(services=config, gates=Gates(long_context=LongContextSettings(concurrency=1, **settings))),
        services=cast("Mapping[str, Service]", services),
        log=None,
        progress=lambda *_, **__: None,
        now=lambda: 0.0,
        sleep=lambda _: None,
        rng=np.random.default_rng(1),
    )
    (finding,) = check(context, Known())
    assert isinstance(finding, Finding)
    return finding


def broken(every: int) -> Say:
    return lambda body, number: right(body, number) if number % every else Reply(text="{", finish_reason="stop")


def test_every_shipped_schema_has_a_valid_answer_and_both_ways_to_ask_count_it() -> None:
    assert set(VALID) == {case.id for case in corpus()}
    for check in (ask_json, ask_plain_json):
        finding = ask(check, Server(right))
        assert (finding.verdict, finding.measured) == (Verdict.PASS, 1.0)


def test_no_question_is_asked_twice_before_99_percent_are_certified() -> None:
    """299 answers without a failure: .99^299 = .0495. Greedy answers to one question would all be the same one."""
    server = Server(right)
    finding = ask(ask_json, server, rate_verdict="certified")
    assert (finding.verdict, finding.samples) == (Verdict.PASS, 299)
    assert len({body["said"] for body in server.bodies}) == 299


def test_one_failure_in_26_is_below_99_percent_and_its_exact_interval_is_told() -> None:
    """25 of 26: Clopper-Pearson .8036 to .9990 (scipy.stats.binomtest(25, 26).proportion_ci())."""
    finding = ask(ask_json, Server(broken(26)))
    assert (finding.verdict, finding.symptom) == (Verdict.FAIL, "json_truncated")
    assert finding.interval is not None
    assert finding.interval.low == pytest.approx(0.80363, abs=1e-4)
    assert finding.interval.high == pytest.approx(0.99903, abs=1e-4)


def test_one_failure_in_299_passes_as_observed_and_is_not_certified() -> None:
    """The exact lower bound of 298 of 299 is .9842; 473 answers would do with one failure."""
    assert ask(ask_json, Server(broken(299)), rate_verdict="certified").verdict is Verdict.INCONCLUSIVE
    assert ask(ask_json, Server(broken(299))).verdict is Verdict.PASS


def test_a_server_that_refuses_schemas_is_inconclusive() -> None:
    server = Server(right)
    server.chat = lambda *_, **__: Refusal(status=400, message="response_format is not supported")  # type: ignore[method-assign]
    finding = ask(ask_json, server)
    assert (finding.verdict, finding.symptom) == (Verdict.INCONCLUSIVE, "schema_refused")


def test_a_fence_around_plain_json_is_no_fault_and_a_sentence_is() -> None:
    def fenced(body: Mapping[str, Any], number: int) -> Answer:
        answer = right(body, number)
        assert isinstance(answer, Reply)
        return Reply(text=f"```json\n{answer.text}\n```", finish_reason="stop")

    assert ask(ask_plain_json, Server(fenced)).measured == 1.0
    chatty = Server(lambda *_: Reply(text="Here you are: {}", finish_reason="stop"))
    assert "not_json" in ask(ask_plain_json, chatty).warning


def test_plain_json_that_only_the_release_gets_wrong_blocks() -> None:
    always = Server(lambda *_: Reply(text="no", finish_reason="stop"))
    finding = ask(ask_plain_json, always, baseline=Server(right))
    assert (finding.verdict, finding.symptom) == (Verdict.FAIL, "json_not_json")
    assert "the release alone got 8 wrong" in finding.message


def test_a_single_slip_in_plain_json_blocks_nothing() -> None:
    slip = Server(lambda body, number: Reply(text="no", finish_reason="stop") if number == 3 else right(body, number))
    finding = ask(ask_plain_json, slip, baseline=Server(right))
    assert finding.verdict is Verdict.PASS
    assert "1 not_json" in finding.warning


@pytest.mark.parametrize(
    "hello", [Reply(reasoning="The user wants", finish_reason="length"), Reply(text="<think>\nThe user")]
)
def test_a_model_that_thinks_first_gets_room_for_it_and_its_thoughts_are_no_answer(hello: Reply) -> None:
    def thinking(body: Mapping[str, Any], number: int) -> Answer:
        answer = right(body, number)
        assert isinstance(answer, Reply)
        return Reply(text=f"<think>{{}}</think>\n{answer.text}", finish_reason="stop")

    server = Server(thinking, hello=hello)
    assert ask(ask_json, server).measured == 1.0
    assert {body["max_tokens"] for body in server.bodies} == {400 + THINKING}


def test_questions_about_a_topic_differ_and_the_first_round_is_plain() -> None:
    first, second = questions(len(corpus())), questions(2 * len(corpus()))[len(corpus()) :]
    assert [case.prompt for case in first] == [case.prompt for case in corpus()]
    assert not {case.prompt for case in first} & {case.prompt for case in second}
