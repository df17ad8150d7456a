"""The answers of a real vLLM 0.32.0, healthy and with NaN logits, read by the client over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.server.loopback import Answer, Loopback, Request, http
from tests.simulator_contract.recordings import FAULTY, HEALTHY, recorded

from vllm_gate.core.secret import Secret
from vllm_gate.server.connect import connect
from vllm_gate.server.interface import ConnectedService
from vllm_gate.server.reply import Refusal, Reply, TokenLogprobs

FRANCE = [{"role": "user", "content": "What is the capital of France?"}]


class Replay:
    """Answers whatever is asked with one recorded response."""

    def __init__(self) -> None:
        self.response: Mapping[str, Any] = {}

    def __call__(self, request: Request) -> Answer:
        kinds = {"json": lambda value: json.dumps(value).encode(), "sse": str.encode, "text": str.encode}
        (body,) = (kinds[kind](value) for kind, value in self.response.items() if kind in kinds)
        return http(body, self.response["status"], Content_Type=self.response["content_type"])


class Recorded:
    def __init__(self, replay: Replay, service: ConnectedService) -> None:
        self._replay = replay
        self._service = service

    def service(self, name: str, of: str = HEALTHY) -> ConnectedService:
        self._replay.response = recorded(of)[name]["response"]
        return self._service

    def chat(self, name: str, of: str = HEALTHY) -> Reply:
        """A generation, asked for in the way that the recorded one was."""
        exchange = recorded(of)[name]
        stream = "sse" in exchange["response"]
        service = self.service(name, of)
        if exchange["request"]["path"].endswith("/chat/completions"):
            answer = service.chat(FRANCE, max_tokens=8, stream=stream)
        else:
            answer = service.complete("The capital of France is", max_tokens=3, stream=stream)
        assert isinstance(answer, Reply), answer
        assert answer.streamed is stream
        return answer


@pytest.fixture(scope="module")
def real() -> Iterator[Recorded]:
    replay = Replay()
    with Loopback(replay) as server:
        service = connect(
            name="s",
            base_url=server.base_url,
            model="smollm2",
            api="openai",
            api_key=Secret("sk-planted-0123456789"),
            timeout_s=5,
        )
        yield Recorded(replay, service)


def test_a_chat(real: Recorded) -> None:
    reply = real.chat("chat_with_token_ids")
    assert reply.text == "The capital of France is Paris."
    assert reply.token_ids == (504, 3575, 282, 4649, 314, 7042, 30, 2)
    assert reply.prompt_token_ids is not None
    assert (len(reply.prompt_token_ids), reply.prompt_token_ids[:3]) == (42, (1, 9690, 198))
    assert (reply.finish_reason, reply.stop_reason) == ("stop", "")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens) == (42, 8, 0)
    assert reply.system_fingerprint == "vllm-0.32.0-2e53486f"
    assert (reply.logprobs, reply.prompt_logprobs, reply.nonfinite, reply.first_token_s) == (None, None, 0, None)


def test_a_chat_without_token_ids_says_none_and_not_an_empty_list(real: Recorded) -> None:
    reply = real.chat("chat")
    assert (reply.token_ids, reply.prompt_token_ids) == (None, None)


def test_logprobs_of_a_chat_are_keyed_by_token_id(real: Recorded) -> None:
    reply = real.chat("chat_with_logprobs")
    assert reply.logprobs is not None
    assert reply.logprobs[0] == TokenLogprobs(
        token_id=504,
        logprob=-0.8472273945808411,
        top={504: -0.8472273945808411, 38634: -2.7222273349761963, 49: -3.2222273349761963},
    )
    assert [position.token_id for position in reply.logprobs] == list(reply.token_ids or ())


def test_logprobs_told_as_text_have_no_ids_and_no_alternatives(real: Recorded) -> None:
    for name in ("chat_with_logprobs_as_text", "completion_with_logprobs_as_text", "completion_stream_with_logprobs"):
        logprobs = real.chat(name).logprobs
        assert logprobs is not None
        assert [(position.token_id, dict(position.top)) for position in logprobs] == [(None, {})] * 2
        assert all(position.logprob is not None and position.logprob < 0 for position in logprobs)


def test_logprobs_of_a_completion(real: Recorded) -> None:
    reply = real.chat("completion_with_logprobs")
    assert reply.text == " Paris.\n"
    assert reply.logprobs is not None
    assert [position.token_id for position in reply.logprobs] == [7042, 30, 198]
    assert reply.logprobs[2].top == {198: -0.9825373888015747, 378: -2.357537269592285, 7042: -2.607537269592285}
    assert reply.prompt_token_ids == (504, 3575, 282, 4649, 314)


def test_prompt_logprobs_of_a_completion(real: Recorded) -> None:
    reply = real.chat("completion_with_prompt_logprobs")
    assert reply.prompt_token_ids == (53, 54, 55, 56)
    assert reply.prompt_logprobs is not None
    assert reply.prompt_logprobs[0] is None
    assert reply.prompt_logprobs[1] == TokenLogprobs(
        token_id=54,
        logprob=-8.504042625427246,
        rank=234,
        top={54: -8.504042625427246, 29: -0.754042387008667, 28: -2.629042387008667, 79: -3.129042387008667},
    )
    assert [position and position.token_id for position in reply.prompt_logprobs] == [None, 54, 55, 56]


def test_prompt_logprobs_of_a_chat_without_token_ids_know_which_token_stood_there(real: Recorded) -> None:
    """vLLM writes the standing token first, which is all there is to know it by."""
    raw = recorded(HEALTHY)["chat_with_prompt_logprobs"]["response"]["json"]["prompt_logprobs"]
    positions = real.chat("chat_with_prompt_logprobs").prompt_logprobs
    assert positions is not None
    assert len(positions) == len(raw)
    assert positions[0] is None
    assert [position.token_id for position in positions[1:] if position] == [int(next(iter(p))) for p in raw[1:]]


@pytest.mark.parametrize(
    ("streamed", "whole"),
    [("completion_stream", "completion_with_token_ids"), ("chat_forced_tool_stream", "chat_forced_tool")],
)
def test_a_stream_put_together_is_the_whole_answer(real: Recorded, streamed: str, whole: str) -> None:
    one, other = real.chat(streamed), real.chat(whole)
    assert (one.text, one.token_ids, one.finish_reason) == (other.text, other.token_ids, other.finish_reason)
    assert [(c.name, c.arguments, c.index) for c in one.tool_calls] == [
        (c.name, c.arguments, c.index) for c in other.tool_calls
    ]
    assert one.first_token_s is not None
    assert 0 < one.first_token_s <= one.elapsed_s


def test_a_streamed_chat_with_token_ids_and_usage(real: Recorded) -> None:
    reply = real.chat("chat_stream_with_token_ids")
    assert (reply.text, reply.token_ids) == ("The capital of France", (504, 3575, 282, 4649))
    assert reply.prompt_token_ids is not None
    assert len(reply.prompt_token_ids) == 42
    assert (reply.usage.completion_tokens, reply.system_fingerprint) == (4, "vllm-0.32.0-2e53486f")


def test_streamed_logprobs_equal_the_whole_answers(real: Recorded) -> None:
    streamed, whole = real.chat("chat_stream_with_logprobs").logprobs, real.chat("chat_with_logprobs").logprobs
    assert streamed is not None
    assert whole is not None
    assert [(p.token_id, p.logprob) for p in streamed] == [(p.token_id, p.logprob) for p in whole]


def test_a_forced_tool_call_keeps_its_arguments_as_they_came(real: Recorded) -> None:
    (call,) = real.chat("chat_forced_tool").tool_calls
    assert (call.name, call.arguments) == ("add", '"23"'), "a JSON text where an object belongs: not the client's call"


def test_a_prefix_cache_hit_is_told_by_the_usage(real: Recorded) -> None:
    """On the server that was recorded cold; the other had answered the same salts before."""
    cached = {
        name: real.chat(f"prefix_cache_{name}", FAULTY).usage.cached_tokens for name in ("miss", "hit", "other_salt")
    }
    assert cached == {"miss": 0, "hit": 256, "other_salt": 0}


def test_vllms_own_endpoints(real: Recorded) -> None:
    assert real.service("health").health() is True
    assert real.service("version").version() == "0.32.0"
    assert real.service("tokenize_prompt").tokenize("") == (19556, 28, 216, 7906, 240, 178, 239, 230, 17)
    assert real.service("detokenize").detokenize([53]) == "EFGH"
    (card,) = real.service("models").models()
    assert (card.id, card.max_model_len, card.root) == ("smollm2", 8192, "/models/smollm2-135m")
    info = real.service("server_info").server_info()
    assert info is not None
    assert "vllm_config" in info
    metrics = real.service("metrics", FAULTY).metrics()
    assert metrics is not None
    assert metrics["vllm:prefix_cache_hits_total"] == 256


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("error_unknown_model", 404, "The model `no-such-model` does not exist"),
        ("error_temperature_negative", 400, "temperature must be non-negative"),
        ("error_prompt_logprobs_in_stream", 400, "prompt_logprobs"),
        ("unknown_path", 404, "Not Found"),
        ("wrong_method", 405, "Method Not Allowed"),
    ],
)
def test_errors_are_refusals_in_the_servers_words(real: Recorded, name: str, status: int, words: str) -> None:
    answer = real.service(name).chat(FRANCE, max_tokens=1)
    assert isinstance(answer, Refusal)
    assert answer.status == status
    assert words in answer.message
    assert not answer.says_nonfinite


def test_nan_logits_whole_are_a_run_of_token_0_with_empty_text(real: Recorded) -> None:
    reply = real.chat("chat_with_token_ids", FAULTY)
    assert (reply.text, reply.token_ids, reply.finish_reason) == ("", (0,) * 8, "length")


@pytest.mark.parametrize("name", ["chat_with_logprobs", "completion_with_logprobs", "completion_with_prompt_logprobs"])
def test_nan_logits_with_logprobs_are_a_refusal_that_says_so(real: Recorded, name: str) -> None:
    answer = real.service(name, FAULTY).chat(FRANCE, max_tokens=1, logprobs=True)
    assert isinstance(answer, Refusal)
    assert (answer.status, answer.says_nonfinite) == (400, True)
    assert not real.service(name, FAULTY).notes, "no adaptation may hide it"


def test_nan_logits_in_a_stream_are_tokens_without_a_logprob(real: Recorded) -> None:
    reply = real.chat("chat_stream_with_logprobs", FAULTY)
    assert reply.logprobs is not None
    assert [(p.token_id, p.logprob, dict(p.top)) for p in reply.logprobs] == [(0, None, {})] * 3
    assert (reply.text, reply.token_ids, reply.nonfinite) == ("", (0, 0, 0), 3)
    assert reply.first_token_s is not None, "a token came, though its text is empty"


@pytest.mark.parametrize("of", [HEALTHY, FAULTY])
def test_every_recorded_generation_is_read_as_what_it_is(real: Recorded, of: str) -> None:
    """200 is a Reply with a finish reason, anything else a Refusal with a message; nothing raises."""
    for name, exchange in recorded(of).items():
        path = exchange["request"]["path"]
        if not path.endswith("/completions"):
            continue
        service, stream = real.service(name, of), "sse" in exchange["response"]
        if path.endswith("/chat/completions"):
            answer = service.chat(FRANCE, max_tokens=1, stream=stream)
        else:
            answer = service.complete("x", max_tokens=1, stream=stream)
        if exchange["response"]["status"] == 200:
            assert isinstance(answer, Reply), name
            assert answer.finish_reason in ("stop", "length"), name
            assert answer.model == "smollm2"
        else:
            assert isinstance(answer, Refusal), name
            assert answer.message, name
