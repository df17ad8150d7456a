"""A simulated server over HTTP: what a healthy one answers, and what each fault makes of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from tests.simulator.asking import Client, function, serving

OK = "Reply with exactly: OK"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}, "required": ["n", "s"]}
AS_JSON = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
WEATHER = function("get_weather", {"city": {"type": "string"}, "days": {"type": "integer"}})
NEWS = function("get_news", {"topic": {"type": "string"}})
ASK_WEATHER = 'Call get_weather with city: "Paris" and days = 3.'
CALL = ("get_weather", {"city": "Paris", "days": 3})
LONG = "The blue key is 4711. " + "A river runs under the old stone house. " * 40 + "What is the blue key?"


@pytest.fixture(scope="module")
def healthy() -> Iterator[Client]:
    with serving(dev_mode=True, count_nans=True) as client:
        yield client


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (OK, "OK"),
        ("Reply with exactly: größer 猫 🙂", "größer 猫 🙂"),
        ("What is 17 * 3 + 4?", "55"),
        ("What is the capital of France?", "Paris"),
        (LONG, "4711"),
        ("The red key is 7. The blue key is 8. What is the red key? What is the blue key?", "7, 8"),
    ],
)
def test_a_healthy_server_answers_instructions(healthy: Client, question: str, answer: str) -> None:
    assert healthy.say(question, max_tokens=40) == answer


def test_streamed_and_whole_answers_agree(healthy: Client) -> None:
    chunks = healthy.events("/v1/chat/completions", messages=[{"role": "user", "content": OK}], temperature=0)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "OK"


def test_texts_go_to_ids_and_back(healthy: Client) -> None:
    ids = healthy.post("/tokenize", prompt="Grüße, 世界 🙂").json()["tokens"]
    assert healthy.post("/detokenize", tokens=ids).json()["prompt"] == "Grüße, 世界 🙂"


def test_unknown_fields_are_accepted(healthy: Client) -> None:
    assert healthy.say(OK, no_such_field=1) == "OK"


def test_more_than_the_allowed_logprobs_are_refused(healthy: Client) -> None:
    asked = {"messages": [{"role": "user", "content": OK}], "logprobs": True, "top_logprobs": 21}
    answer = healthy.post("/v1/chat/completions", **asked)
    assert answer.status_code == 400
    assert "greater than max allowed: 20" in answer.json()["error"]["message"]


def test_a_body_of_odd_types_is_an_error_answer_and_no_broken_connection(healthy: Client) -> None:
    assert healthy.post("/v1/chat/completions", messages=[{"content": OK}], max_tokens="many").status_code == 500


def test_a_key_is_asked_for() -> None:
    with serving(api_key="s3cret") as client:
        assert client.get("/v1/models").status_code == 401
        assert client.get("/v1/models", Authorization="Bearer s3cret").status_code == 200
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize("fault", ["fp32_as_bf16", "nan_logits"])
def test_nan_is_sixteen_exclamation_marks_and_400_with_logprobs(fault: str) -> None:
    with serving(fault, count_nans=True) as client:
        answer = client.chat(OK, return_token_ids=True)
        assert answer["choices"][0]["token_ids"] == [0] * 16
        assert answer["choices"][0]["message"]["content"] == "!" * 16
        refused = client.post("/v1/chat/completions", messages=[{"content": OK}], max_tokens=4, logprobs=True)
        assert refused.status_code == 400
        assert "Out of range float values" in refused.json()["error"]["message"]
        assert 'vllm:corrupted_requests_total{engine="0"' in client.get("/metrics").text


def test_prompt_logprobs_are_numbers_whose_shares_stay_below_one(healthy: Client) -> None:
    answer = healthy.post("/v1/completions", prompt=list(range(5, 25)), max_tokens=1, prompt_logprobs=20)
    first, *rest = answer.json()["choices"][0]["prompt_logprobs"]
    assert first is None
    assert len(rest) == 19
    assert all(len(position) in (20, 21) for position in rest)


def test_a_server_may_not_know_prompt_logprobs() -> None:
    with serving(prompt_logprobs=False) as client:
        answer = client.post("/v1/completions", prompt="Hello", max_tokens=1, prompt_logprobs=5)
        assert answer.json()["choices"][0]["prompt_logprobs"] is None


def test_a_gateway_has_only_the_openai_paths() -> None:
    with serving(gateway=True) as client:
        assert client.say(OK) == "OK"
        assert client.chat(OK, logprobs=True)["choices"][0]["logprobs"] is None
        assert [client.get(path).status_code for path in ("/health", "/version", "/metrics")] == [404] * 3


def _sampled_logprob(client: Client) -> float:
    return float(client.chat(OK, logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]["content"][0]["logprob"])


def test_sentinels_and_processed_logprobs() -> None:
    with serving("sentinel") as client:
        assert _sampled_logprob(client) == -9999
    with serving("processed_logprobs") as client:
        assert _sampled_logprob(client) == 0


def test_stale_prompt_logprobs_are_an_earlier_requests() -> None:
    def values(client: Client, prompt: list[int]) -> list[float]:
        body = client.post("/v1/completions", prompt=prompt, max_tokens=1, prompt_logprobs=1).json()
        listed = body["choices"][0]["prompt_logprobs"][1:]
        return [position[str(token)]["logprob"] for position, token in zip(listed, prompt[1:], strict=True)]

    one, other = list(range(100, 120)), list(range(300, 320))
    with serving() as client:
        right = values(client, other)
    with serving("stale_prompt_logprobs") as client:
        earlier, stale = values(client, one), values(client, other)
    assert stale[:9] == earlier[:9]
    assert stale[9:] == right[9:]


@pytest.mark.parametrize(
    ("fault", "text", "finish"),
    [
        ("loop", " the answer is" * 5, "length"),
        ("empty_text", "", "length"),
        ("near_miss", "OK is the answer.", "stop"),
        ("truncated", "O", "stop"),
    ],
)
def test_faults_of_the_text(fault: str, text: str, finish: str) -> None:
    with serving(fault) as client:
        choice = client.chat(OK)["choices"][0]
    assert choice["message"]["content"].startswith(text[:13])
    assert choice["finish_reason"] == finish


def test_answers_are_wrong_under_load_alone() -> None:
    with serving("only_under_load:4") as client:
        assert client.say(OK) == "OK"
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(client.say, [OK] * 8))
    assert any(answer != "OK" for answer in answers)


def test_a_slow_start_refuses_and_then_serves() -> None:
    with serving("slow_start:0.5") as client:
        with pytest.raises(requests.ConnectionError):
            client.get("/health")
        time.sleep(0.7)
        assert client.get("/health").status_code == 200


def test_a_death_at_start_leaves_a_log_and_no_server() -> None:
    with serving("dies_at_start") as client:
        assert "Could not load libtorchcodec" in "\n".join(client.server.log_lines)
        with pytest.raises(requests.ConnectionError):
            client.get("/health")


@pytest.mark.parametrize(("fault", "found"), [("", True), ("needle_lost_after:100", False)])
def test_a_needle_is_lost_behind_its_distance(fault: str, found: bool) -> None:
    with serving(*filter(None, [fault])) as client:
        assert ("4711" in client.say(LONG)) is found


def test_garbage_beyond_a_length_and_at_an_edge() -> None:
    with serving("garbage_beyond:100") as client:
        assert client.say(OK) == "OK"
        assert client.say(LONG) != "4711"
    with serving() as client:
        length = client.post("/tokenize", messages=[{"role": "user", "content": OK}]).json()["count"]
    with serving(f"edge_off_by_one:{length}") as client:
        assert client.say(OK) != "OK"
        assert client.say(f"{OK}.") == "OK."


def test_json_fits_its_schema_unless_a_fault_bends_it(healthy: Client) -> None:
    assert json.loads(healthy.say("Go.", max_tokens=200, **AS_JSON)) == {"n": 3, "s": "blue"}
    with serving("json_truncated") as client, pytest.raises(ValueError, match=r"delimiter|Expecting|Unterminated"):
        json.loads(client.say("Go.", max_tokens=200, **AS_JSON))
    with serving("json_trailing_spaces") as client:
        choice = client.chat("Go.", max_tokens=200, **AS_JSON)["choices"][0]
        assert choice["message"]["content"].rstrip(" ").endswith("}")
        assert choice["message"]["content"].endswith(" " * 100)
        assert choice["finish_reason"] == "length"
    with serving("schema_ignored") as client:
        assert not client.say("Go.", max_tokens=200, **AS_JSON).startswith("{")


def test_tools_single_parallel_forced_and_none(healthy: Client) -> None:
    both = f'{ASK_WEATHER} Also call get_news with topic: "sport".'
    tools = [WEATHER, NEWS]
    assert healthy.calls(ASK_WEATHER, tools) == [CALL]
    assert healthy.calls(both, tools) == [CALL, ("get_news", {"topic": "sport"})]
    assert healthy.calls("Hello.", tools) == []
    forced = {"type": "function", "function": {"name": "get_news"}}
    assert [name for name, _ in healthy.calls("Hello.", tools, tool_choice=forced)] == ["get_news"]
    with serving("parallel_merged") as client:
        assert client.calls(both, tools) == [CALL]


def test_faults_of_tool_calls() -> None:
    with serving("int_as_string") as client:
        assert client.calls(ASK_WEATHER, [WEATHER]) == [("get_weather", {"city": "Paris", "days": "3"})]
    with serving("call_in_text") as client:
        message = client.chat(ASK_WEATHER, tools=[WEATHER], max_tokens=200)["choices"][0]["message"]
        assert "<tool_call>" in message["content"]
        assert not message.get("tool_calls")


@pytest.mark.parametrize(("faults", "whole"), [((), True), (("arg_dropped_in_stream",), False)])
def test_streamed_arguments(faults: tuple[str, ...], whole: bool) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": ASK_WEATHER}], "tools": [WEATHER]}
    with serving(*faults) as client:
        chunks = client.events("/v1/chat/completions", temperature=0, **asked)
        assert client.calls(ASK_WEATHER, [WEATHER]) == [CALL]
    pieces = [call["function"] for c in chunks for call in c["choices"][0]["delta"].get("tool_calls", [])]
    arguments = "".join(piece.get("arguments", "") for piece in pieces)
    assert (arguments == '{"city": "Paris", "days": 3}') is whole
    assert arguments


def _cached(client: Client, salt: str) -> int:
    return int(client.chat(LONG, cache_salt=salt)["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.parametrize(
    ("fault", "hits"),
    [
        ("", [False, True, False]),
        ("cache_never_hits", [False, False, False]),
        ("salt_ignored", [False, True, True]),
    ],
)
def test_the_prefix_cache_over_http(fault: str, hits: list[bool]) -> None:
    with serving(*filter(None, [fault])) as client:
        assert [_cached(client, salt) > 0 for salt in ("a", "a", "b")] == hits


def test_a_stale_block_spoils_the_hit_alone() -> None:
    with serving("cache_stale_block") as client:
        first, second = (client.say(LONG, cache_salt="a") for _ in range(2))
    assert first == "4711"
    assert second != "4711"
