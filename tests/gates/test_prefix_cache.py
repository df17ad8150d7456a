"""The prefix cache on scripted servers: what simulated ones do not do, real ones did."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pytest

from vllm_gate.config.plan import Plan, ServiceConfig
from vllm_gate.core.finding import Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.capability.known import Known
from vllm_gate.gates.capability.prefix_cache import ask_prefix_cache
from vllm_gate.gates.capability.shared_prefix import AT_ONCE, ask_shared_prefix
from vllm_gate.gates.interface import Context, LogSource
from vllm_gate.server.interface import ModelCard, Service
from vllm_gate.server.reply import Answer, Refusal, Reply, TokenLogprobs, Usage

HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"


@dataclass
class Server:
    """A cache with blocks of `block` tokens; `say` gives text and first-token probability from (salt, is a hit)."""

    block: int = 16
    window: int = 32_768
    told: bool = False
    counted: bool = True
    traffic: int = 0
    say: Callable[[str, bool], tuple[str, float | None]] = lambda _salt, _hit: ("x", 0.9)
    seen: set[tuple[str, str]] = field(default_factory=set)
    hits: float = 0.0
    queries: float = 0.0
    name: str = "under_test"
    model: str = "m"

    def models(self) -> tuple[ModelCard, ...]:
        return (ModelCard(id="m", max_model_len=self.window),)

    def metrics(self) -> Mapping[str, float] | None:
        return {HITS: self.hits, QUERIES: self.queries} if self.counted else None

    def complete(self, prompt: str, *, max_tokens: int, **extra: object) -> Answer:
        salt, tokens = str(extra["cache_salt"]), len(prompt) // 2
        whole = (tokens - 1) // self.block * self.block
        hit = whole if (prompt, salt) in self.seen else 0
        self.seen.add((prompt, salt))
        self.hits += hit + self.traffic
        self.queries += tokens + 2 * self.traffic
        text, probability = self.say(salt, hit > 0)
        logprobs = None
        if probability is not None:
            top = {1: math.log(probability), 2: math.log(1 - probability)}
            logprobs = (TokenLogprobs(token_id=1, logprob=top[1], top=top),)
        usage = Usage(prompt_tokens=tokens, cached_tokens=hit if self.told else None)
        return Reply(text=text, logprobs=logprobs, usage=usage)


@dataclass
class Log:
    rows: Sequence[str]
    name: str = "log"

    def lines(self) -> Iterator[str]:
        return iter(self.rows)

    def chunks(self) -> Iterator[bytes]:
        return (f"{row}\n".encode() for row in self.rows)


def context(server: object, log: Sequence[str] = (), api: str = "openai") -> Context:
    config = ServiceConfig(name="under_test", base_url="http://127.0.0.1:1", model="m", api=api)
    return Context(
        plan=Plan(services={"under_test": config}),
        services={"under_test": cast("Service", server)},
        log=cast("LogSource", Log(log)),
        progress=lambda *_, **__: None,
        now=lambda: 0.0,
        sleep=lambda _: None,
        rng=np.random.default_rng(1),
    )


def ask(server: object, **more: object) -> Finding:
    (finding,) = ask_prefix_cache(context(server, **more), Known())  # type: ignore[arg-type]
    return finding


def told(finding: Finding) -> tuple[Verdict, str]:
    return finding.verdict, finding.symptom


def test_a_hit_is_proved_by_the_counter_alone() -> None:
    finding = ask(Server())
    assert told(finding) == (Verdict.PASS, "")
    assert "a hit of" in finding.message


def test_large_blocks_of_a_hybrid_model_are_reached_with_a_longer_prompt() -> None:
    assert told(ask(Server(block=2096))) == (Verdict.PASS, "")


def test_blocks_larger_than_any_usual_prompt_are_reached_where_the_log_names_them() -> None:
    line = "INFO 12-01 [config.py:1] Setting attention block size to 9000 tokens to ensure that ..."
    assert told(ask(Server(block=9000, window=65_536), log=[line])) == (Verdict.PASS, "")
    assert told(ask(Server(block=9000, window=65_536))) == (Verdict.INCONCLUSIVE, "cache_never_hits")


def test_a_cache_that_never_hits_although_two_blocks_were_sent_says_so() -> None:
    line = "Setting attention block size to 528 tokens to ensure that ..."
    finding = ask(Server(block=10**9), log=[line])
    assert told(finding) == (Verdict.INCONCLUSIVE, "cache_never_hits")
    assert "528" in finding.message


def test_a_window_too_small_for_any_block_is_told_apart_from_a_dead_cache() -> None:
    assert told(ask(Server(window=1024))) == (Verdict.INCONCLUSIVE, "window_too_small")


def test_other_traffic_is_not_taken_for_a_hit_or_for_a_salt_that_is_ignored() -> None:
    assert told(ask(Server(traffic=500))) == (Verdict.INCONCLUSIVE, "hit_not_proved")
    assert told(ask(Server(traffic=500, told=True))) == (Verdict.PASS, "")


def test_a_near_tie_that_falls_the_other_way_is_no_changed_answer() -> None:
    finding = ask(Server(say=lambda _, hit: ("b", 0.49) if hit else ("a", 0.51)))
    assert told(finding) == (Verdict.PASS, "")
    assert finding.measured == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("cold", "hit", "verdict"),
    [
        (("a", 0.9), ("a", 0.7), Verdict.FAIL),
        (("a", None), ("b", None), Verdict.FAIL),
        (("a", None), ("a", None), Verdict.PASS),
    ],
)
def test_a_hit_that_changes_the_answer_fails(
    cold: tuple[str, float | None], hit: tuple[str, float | None], verdict: Verdict
) -> None:
    assert ask(Server(say=lambda _, is_hit: hit if is_hit else cold)).verdict is verdict


def test_noise_of_cold_answers_explains_as_much_change_of_a_hit() -> None:
    finding = ask(Server(say=lambda salt, hit: ("a", 0.55 if hit else 0.75 if salt.endswith("other") else 0.7)))
    assert finding.verdict is Verdict.PASS
    assert finding.threshold == pytest.approx(0.25)


def test_answers_that_always_differ_decide_nothing_without_logprobs() -> None:
    count = iter(range(10))
    assert told(ask(Server(say=lambda *_: (str(next(count)), None)))) == (Verdict.INCONCLUSIVE, "answers_vary")


def test_an_api_without_salts_is_not_asked() -> None:
    assert ask(object(), api="anthropic").verdict is Verdict.SKIPPED


class Refusing(Server):
    def complete(self, prompt: str, *, max_tokens: int, **extra: object) -> Answer:
        return Refusal(status=404, message="Not Found")


def test_a_gateway_without_completions_is_inconclusive() -> None:
    assert told(ask(Refusing())) == (Verdict.INCONCLUSIVE, "no_completions")
    (finding,) = ask_shared_prefix(context(Refusing()))
    assert told(finding) == (Verdict.INCONCLUSIVE, "no_completions")


def shared(say: Callable[[str, bool], tuple[str, float | None]]) -> Finding:
    (finding,) = ask_shared_prefix(context(Server(say=say)))
    return finding


def test_requests_with_one_prefix_that_say_what_they_say_alone_pass() -> None:
    assert told(shared(lambda *_: ("a", 0.9))) == (Verdict.PASS, "")


def test_requests_with_one_prefix_that_say_something_else_fail() -> None:
    finding = shared(lambda salt, _: ("a", 0.4 if salt.endswith("shared") else 0.9))
    assert told(finding) == (Verdict.FAIL, "shared_prefix_changes_answer")
    assert finding.measured == pytest.approx(0.5)
    assert finding.samples == AT_ONCE


def test_a_difference_that_a_second_prefix_does_not_show_is_a_warning() -> None:
    first = iter(["once"])
    finding = shared(lambda salt, _: ("a", 0.4 if salt.endswith("shared") and next(first, None) else 0.9))
    assert finding.verdict is Verdict.PASS
    assert "with a first prefix 1 of 4 differed" in finding.warning


def test_different_texts_without_logprobs_decide_nothing() -> None:
    finding = shared(lambda salt, _: ("b" if salt.endswith("shared") else "a", None))
    assert told(finding) == (Verdict.INCONCLUSIVE, "answers_vary")
