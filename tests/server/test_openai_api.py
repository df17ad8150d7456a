"""What is asked of an OpenAI-compatible service, and how its oddities are adapted to, or not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.loopback import Answer, Loopback, Request, chat, http, sse
from tests.simulator_contract.recordings import HEALTHY, recorded

from vllm_gate.core.secret import Secret
from vllm_gate.errors import CouldNotJudge, NoAnswer, UnusableAnswer
from vllm_gate.server import parsing
from vllm_gate.server.connect import connect
from vllm_gate.server.interface import ConnectedService
from vllm_gate.server.json_body import parse_object
from vllm_gate.server.openai_api import read_stream
from vllm_gate.server.reply import Refusal, Reply

KEY = "sk-planted-0123456789"
HELLO = [{"role": "user", "content": "Hello"}]
NAN = {"error": {"message": "Out of range float values are not JSON compliant", "code": 400}}
NOT_FOUND = {"detail": "Not Found"}


@contextmanager
def asking(
    respond: Callable[[Request], Answer], *, root: bool = False, timeout_s: float = 5.0
) -> Iterator[tuple[ConnectedService, Loopback]]:
    """A service over a scripted server; `root`: configured without the /v1."""
    with Loopback(respond) as server:
        yield (
            connect(
                name="s",
                base_url=server.root if root else server.base_url,
                model="m",
                api="openai",
                api_key=Secret(KEY),
                timeout_s=timeout_s,
            ),
            server,
        )


def always(answer: Answer) -> Callable[[Request], Answer]:
    return lambda _: answer


def reply(answer: Reply | Refusal) -> Reply:
    assert isinstance(answer, Reply), answer
    return answer


def refusal(answer: Reply | Refusal) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


# --- what is asked -----------------------------------------------------------------------------------------------


def test_every_sampling_default_is_switched_off() -> None:
    """Else the model's generation_config.json would choose them, and differently on two servers."""
    with asking(always(http(chat()))) as (service, server):
        service.chat(HELLO, max_tokens=16)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "m",
        "messages": HELLO,
        "max_tokens": 16,
        "temperature": 0,
        "top_p": 1,
        "top_k": -1,
        "min_p": 0,
        "repetition_penalty": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }


def test_what_the_caller_asks_for_wins_over_every_default() -> None:
    with asking(always(http(chat()))) as (service, server):
        service.chat(HELLO, max_tokens=1, temperature=0.7, top_k=5, return_token_ids=False, cache_salt="x")
    sent = server.requests[0].json
    assert [sent[key] for key in ("temperature", "top_k", "return_token_ids", "cache_salt")] == [0.7, 5, False, "x"]


def test_a_completion_takes_a_text_or_token_ids_and_never_turns_one_into_the_other() -> None:
    with asking(always(http({"choices": [{"text": "x"}]}))) as (service, server):
        service.complete("Hello", max_tokens=1)
        service.complete((1, 2, 3), max_tokens=1)
    assert [(r.path, r.json["prompt"]) for r in server.requests] == [
        ("/v1/completions", "Hello"),
        ("/v1/completions", [1, 2, 3]),
    ]


def test_a_users_request_is_sent_as_it_was_written_with_the_model_set_anew() -> None:
    body = {"model": "old", "messages": HELLO, "temperature": 0.3, "tools": [{"type": "function"}], "max_tokens": 9}
    with asking(always(http(chat()))) as (service, server):
        assert reply(service.send("/v1/chat/completions", body)).text == "OK"
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].json == {**body, "model": "m"}


def test_a_users_stream_stays_one_and_its_refusal_is_a_value() -> None:
    event = {"choices": [{"text": "OK", "finish_reason": "stop"}]}
    with asking(always(sse(event))) as (service, server):
        answer = reply(service.send("/v1/completions", {"prompt": "Hi", "stream": True}))
    assert (answer.text, answer.streamed) == ("OK", True)
    assert server.requests[0].json["stream_options"] == {"include_usage": True}
    with asking(always(http({"error": {"message": "no"}}, status=400))) as (service, _):
        assert refusal(service.send("/v1/completions", {"prompt": "Hi"})).status == 400


def test_a_stream_asks_for_its_usage() -> None:
    with asking(always(sse({"choices": [{"delta": {"content": "OK"}, "finish_reason": "stop"}]}))) as (service, server):
        assert reply(service.chat(HELLO, max_tokens=1, stream=True)).text == "OK"
    assert (server.requests[0].json["stream"], server.requests[0].json["stream_options"]) == (
        True,
        {"include_usage": True},
    )


# --- gateways that refuse vLLM's fields --------------------------------------------------------------------------


def strict_gateway(request: Request) -> Answer:
    if unknown := [field for field in ("top_k", "return_token_ids", "cache_salt") if field in request.json]:
        return http({"error": {"message": f"Unrecognized request argument supplied: {unknown[0]}"}}, 400)
    return http(chat())


def test_a_gateway_that_refuses_vllms_fields_is_asked_without_them_and_that_is_noted() -> None:
    with asking(strict_gateway) as (service, server):
        assert reply(service.chat(HELLO, max_tokens=1, cache_salt="x")).token_ids is None
        assert reply(service.chat(HELLO, max_tokens=1)).text == "OK"
    assert len(server.requests) == 3, "found out once"
    refused = "Unrecognized request argument supplied: top_k"
    assert service.notes == (f"s: refuses vLLM's request fields, so token ids can't be asked for ({refused})",)


def test_nan_logits_are_never_taken_for_a_refused_field() -> None:
    """Not even by a server that repeats the request, with the names of its fields, in its error."""
    with asking(lambda request: http({**NAN, "request": request.json}, 400)) as (service, server):
        assert refusal(service.chat(HELLO, max_tokens=1, logprobs=True)).says_nonfinite
    assert (len(server.requests), service.notes) == (1, ())


def test_a_server_that_took_the_fields_once_is_not_forgiven_a_400_later() -> None:
    answers = iter([http(chat()), http({"error": {"message": "top_k is not supported"}}, 400), http(chat())])
    with asking(lambda _: next(answers)) as (service, server):
        reply(service.chat(HELLO, max_tokens=1))
        assert refusal(service.chat(HELLO, max_tokens=1)).status == 400
    assert (len(server.requests), service.notes) == (2, ())


def test_a_request_that_is_refused_with_and_without_the_fields_keeps_its_first_refusal() -> None:
    answers = iter([http({"error": "unknown field top_k"}, 400), http({"error": "model overloaded"}, 500)])
    with asking(lambda _: next(answers)) as (service, _):
        assert refusal(service.chat(HELLO, max_tokens=1)).message == "unknown field top_k"
    assert service.notes == ()


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens.",
        "temperature must be non-negative, got -1.0.",
        "Invalid JSON",
        "The prompt is empty",
    ],
)
def test_other_bad_requests_are_asked_once(message: str) -> None:
    with asking(always(http({"error": {"message": message}}, 400))) as (service, server):
        assert refusal(service.chat(HELLO, max_tokens=1)).message == message
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
def test_a_status_that_is_no_complaint_about_fields_is_asked_once(status: int) -> None:
    with asking(always(http({"error": "unsupported top_k"}, status))) as (service, server):
        assert refusal(service.chat(HELLO, max_tokens=1)).status == status
    assert len(server.requests) == 1


# --- roots -------------------------------------------------------------------------------------------------------


def only_v1(request: Request) -> Answer:
    if not request.path.startswith("/v1/"):
        return http(NOT_FOUND, 404)
    return http({"data": [{"id": "m"}]} if request.path.endswith("models") else chat())


def test_a_base_url_without_v1_is_corrected_once_and_noted() -> None:
    with asking(only_v1, root=True) as (service, server):
        reply(service.chat(HELLO, max_tokens=1))
        reply(service.chat(HELLO, max_tokens=1))
        service.models()
    assert server.paths == ["/chat/completions", "/v1/chat/completions", "/v1/chat/completions", "/v1/models"]
    assert service.notes == (f"s: {server.root} answers 404, so {server.root}/v1 is used",)


def test_models_settle_the_root_too() -> None:
    with asking(only_v1, root=True) as (service, server):
        assert [card.id for card in service.models()] == ["m"]
        reply(service.chat(HELLO, max_tokens=1))
    assert server.paths == ["/models", "/v1/models", "/v1/chat/completions"]


def test_a_root_that_answers_as_it_stands_is_kept_without_a_note() -> None:
    with asking(always(http(chat())), root=True) as (service, server):
        reply(service.chat(HELLO, max_tokens=1))
    assert (server.paths, service.notes) == (["/chat/completions"], ())


def test_only_a_404_sends_the_client_to_the_other_root() -> None:
    with asking(always(http(NOT_FOUND, 500)), root=True) as (service, server):
        assert refusal(service.chat(HELLO, max_tokens=1)).status == 500
    assert server.paths == ["/chat/completions"]


def test_an_unknown_model_is_told_in_the_words_that_name_it() -> None:
    def respond(request: Request) -> Answer:
        unknown = {"error": {"message": "The model `m` does not exist."}}
        return http(NOT_FOUND if request.path.startswith("/v1") else unknown, 404)

    with asking(respond, root=True) as (service, _):
        assert refusal(service.chat(HELLO, max_tokens=1)).message == "The model `m` does not exist."


def test_vllms_own_endpoints_live_at_the_servers_root() -> None:
    with asking(always(http({"tokens": [1], "prompt": "x", "version": "0.32.0"}))) as (service, server):
        service.health()
        service.version()
        service.metrics()
        service.tokenize("x")
        service.detokenize([1])
        service.server_info()
    assert server.paths == [
        "/health",
        "/version",
        "/metrics",
        "/tokenize",
        "/detokenize",
        "/server_info?config_format=json",
    ]


# --- endpoints that are not there --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [http(NOT_FOUND, 404), http(status=405), http(status=302, Location="https://example.org/login")],
    ids=["404", "405", "login page"],
)
def test_a_gateway_without_vllms_endpoints_says_none_and_no_error(answer: bytes) -> None:
    with asking(always(answer)) as (service, _):
        assert (service.health(), service.version(), service.metrics(), service.server_info()) == (None,) * 4


def test_a_gateway_that_answers_everything_with_its_web_page_has_no_version() -> None:
    with asking(always(http(b"<html>Welcome</html>"))) as (service, _):
        assert (service.version(), service.server_info()) == (None, None)
        with pytest.raises(UnusableAnswer, match="not JSON"):
            service.tokenize("x")


@pytest.mark.parametrize(
    ("status", "healthy"), [(200, True), (500, False), (503, False), (401, None), (403, None), (204, None)]
)
def test_health(status: int, healthy: bool | None) -> None:
    with asking(always(http(status=status))) as (service, _):
        assert service.health() is healthy


def test_health_is_asked_once_because_its_caller_polls() -> None:
    with asking(always([])) as (service, server), pytest.raises(NoAnswer):
        service.health()
    assert (len(server.requests), service.notes) == (1, ())


def test_a_tokenizer_that_answers_without_tokens_is_broken_and_not_absent() -> None:
    with asking(always(http({"count": 3, "tokens": ["a"]}))) as (service, _):
        with pytest.raises(UnusableAnswer, match="without a list of tokens"):
            service.tokenize("x")
        with pytest.raises(UnusableAnswer, match="without a text"):
            service.detokenize([1])


def test_tokenizer_requests() -> None:
    with asking(always(http({"tokens": [5, 6]}))) as (service, server):
        assert service.tokenize("x") == (5, 6)
        assert service.tokenize("x", add_special_tokens=True) == (5, 6)
        assert service.tokenize_chat(HELLO, tools=[]) == (5, 6)
    assert [request.json for request in server.requests] == [
        {"model": "m", "prompt": "x", "add_special_tokens": False},
        {"model": "m", "prompt": "x", "add_special_tokens": True},
        {"model": "m", "messages": HELLO, "tools": []},
    ]


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": {"id": "m"}}])
def test_a_list_of_models_that_is_none_is_unusable(body: object) -> None:
    with asking(always(http(body))) as (service, _), pytest.raises(UnusableAnswer, match="without a list of models"):
        service.models()


def test_a_missing_key_is_told_with_its_remedy_and_the_key_is_not() -> None:
    with asking(always(http({"error": {"message": f"Invalid key {KEY}"}}, 401))) as (service, _):
        with pytest.raises(UnusableAnswer, match=r"HTTP 401: Invalid key \*\*\*") as failure:
            service.models()
        answer = refusal(service.chat(HELLO, max_tokens=1))
    assert "api_key_env" in failure.value.hint
    assert (answer.status, KEY in repr(answer)) == (401, False)


def test_a_key_repeated_in_a_good_answer_is_in_no_part_of_the_reply() -> None:
    with asking(always(http(chat(KEY, model=KEY, echo={"key": [KEY]})))) as (service, _):
        answer = reply(service.chat(HELLO, max_tokens=1))
    assert answer.text == "***"
    assert KEY not in repr(answer)
    assert KEY not in repr(service) + repr(vars(service))


# --- streams -----------------------------------------------------------------------------------------------------


def delta(finish_reason: str | None = None, **fields: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def streamed(*events: object, done: bool = True) -> Reply | Refusal:
    with asking(always(sse(*events, done=done))) as (service, _):
        return service.chat(HELLO, max_tokens=1, stream=True)


def test_parallel_tool_calls_are_put_together_by_index() -> None:
    answer = reply(
        streamed(
            delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "add", "arguments": ""}}]),
            delta(tool_calls=[{"index": 1, "id": "b", "function": {"name": "sub"}}]),
            delta(tool_calls=[{"index": 1, "function": {"arguments": '{"x": '}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": '{"y": 1}'}}]),
            delta(tool_calls=[{"index": 1, "id": None, "function": {"name": None, "arguments": "2}"}}]),
            delta("tool_calls"),
        )
    )
    assert [(c.id, c.name, c.arguments, c.index) for c in answer.tool_calls] == [
        ("a", "add", '{"y": 1}', 0),
        ("b", "sub", '{"x": 2}', 1),
    ]
    assert answer.finish_reason == "tool_calls"


def test_tool_calls_stand_in_the_order_of_their_index_and_not_of_their_arrival() -> None:
    calls = [{"index": index, "id": str(index), "function": {"name": "add"}} for index in (1, 0)]
    answer = reply(streamed(delta(tool_calls=calls), delta("tool_calls")))
    assert [call.id for call in answer.tool_calls] == ["0", "1"]


def test_a_tool_name_repeated_in_every_piece_is_one_name() -> None:
    piece = {"index": 0, "id": "a", "function": {"name": "add", "arguments": "1"}}
    (call,) = reply(streamed(delta(tool_calls=[piece]), delta("tool_calls", tool_calls=[piece]))).tool_calls
    assert (call.name, call.arguments) == ("add", "11")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_under_either_name(field: str) -> None:
    answer = reply(streamed(delta(**{field: "hm"}), delta(**{field: "m"}), delta("stop", content="OK")))
    assert (answer.reasoning, answer.text) == ("hmm", "OK")


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"error": {"message": "Out of range float values are not JSON compliant", "code": 400}}, 400),
        ({"error": {"message": "EngineDeadError", "type": "InternalServerError"}}, 500),
        ({"object": "error", "message": "out of memory", "code": 503}, 503),
        ({"error": "plain words"}, 500),
    ],
)
def test_an_error_in_the_middle_of_a_stream_is_a_refusal(event: dict[str, Any], status: int) -> None:
    answer = refusal(streamed(delta(content="The"), event))
    assert (answer.status, answer.in_stream) == (status, True)
    said = event.get("error", event)
    assert answer.message == (said["message"] if isinstance(said, dict) else said)
    assert answer.says_nonfinite is ("Out of range" in answer.message)


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    for events in ([], [delta(content="The")]):
        with pytest.raises(NoAnswer, match=f"broke off after {len(events)} chunks") as failure:
            streamed(*events, done=False)
        assert failure.value.reason == "closed"


def test_a_stream_without_its_end_mark_is_read_and_noted_once() -> None:
    with asking(always(sse(delta("stop", content="OK"), done=False))) as (service, server):
        for _ in range(2):
            assert reply(service.chat(HELLO, max_tokens=1, stream=True)).text == "OK"
    assert service.notes == (f"s: {server.base_url}/chat/completions: the stream ends without [DONE]",)


def test_a_stream_that_is_no_stream_is_unusable() -> None:
    whole = http(chat(), Content_Type="application/json; charset=utf-8")
    with asking(always(whole)) as (service, _), pytest.raises(UnusableAnswer, match="but application/json came"):
        service.chat(HELLO, max_tokens=1, stream=True)


def test_an_event_that_is_not_json_is_unusable() -> None:
    with pytest.raises(UnusableAnswer, match="a chunk is not JSON"):
        streamed(delta(content="The"), b"<html>")


def test_nan_literals_in_a_stream_are_counted() -> None:
    chunk = b'{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop", "logprobs": {"content": [{"token": '
    chunk += b'"token_id:7", "logprob": NaN, "top_logprobs": [{"token": "token_id:7", "logprob": -Infinity}]}]}}]}'
    answer = reply(streamed(chunk))
    assert answer.nonfinite == 2
    assert answer.logprobs is not None
    assert answer.logprobs[0].logprob != answer.logprobs[0].logprob
    assert answer.logprobs[0].top == {7: float("-inf")}


def test_the_first_token_is_timed_apart_from_the_first_chunk() -> None:
    head, role, token, done = sse(delta(role="assistant", content=""), delta("stop", content="OK"))
    with asking(always([head, role, 0.3, token, 0.3, done])) as (service, _):
        answer = reply(service.chat(HELLO, max_tokens=1, stream=True))
    assert answer.first_token_s is not None
    assert answer.first_token_s >= 0.3
    assert answer.elapsed_s - answer.first_token_s >= 0.25


def test_a_server_that_hangs_in_a_stream_costs_the_timeout() -> None:
    head, first, _ = sse(delta(content="The"))
    with asking(always([head, first, 30.0]), timeout_s=0.4) as (service, _), pytest.raises(NoAnswer) as failure:
        service.chat(HELLO, max_tokens=1, stream=True)
    assert failure.value.reason == "timeout"


def test_many_threads_may_find_out_at_once() -> None:
    with asking(strict_gateway) as (service, _):
        answers: list[Reply | Refusal] = []
        threads = [
            threading.Thread(target=lambda: answers.append(service.chat(HELLO, max_tokens=1))) for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [reply(answer).text for answer in answers] == ["OK"] * 16
    assert len(service.notes) == 1


# --- answers of any shape ----------------------------------------------------------------------------------------


def test_a_refusal_is_read_from_any_wording() -> None:
    for body, message in {
        b'{"error": {"message": "a"}}': "a",
        b'{"error": "b"}': "b",
        b'{"message": "c"}': "c",
        b'{"detail": "d"}': "d",
        b'{"error": {"error": {"message": "e"}}}': "e",
        b"<html>f</html>": "<html>f</html>",
        b"": "no text",
        b"\xff": "\N{REPLACEMENT CHARACTER}",
        b'{"error": null}': '{"error": null}',
        b"[" * 10_000: "[" * 500,
    }.items():
        assert parsing.refusal_from(500, body, elapsed_s=0).message == message


def test_a_chosen_token_outside_the_top_k_is_one_more_entry() -> None:
    chat_form = {
        "content": [
            {"token": "token_id:9", "logprob": -5.0, "top_logprobs": [{"token": "token_id:1", "logprob": -0.1}]}
        ]
    }
    text_form = {"tokens": ["token_id:9"], "token_logprobs": [-5.0], "top_logprobs": [{"token_id:1": -0.1}]}
    for form in (chat_form, text_form):
        (position,) = parsing.generated_logprobs(form) or ()
        assert position.top == {1: -0.1, 9: -5.0}


def test_the_token_that_stands_in_the_prompt_is_known_by_the_prompts_ids_and_not_by_its_place() -> None:
    entry = {"1": {"logprob": -0.1, "rank": 1}, "9": {"logprob": -5.0, "rank": 40}}
    (_, known) = parsing.prompt_logprobs([None, entry], (3, 9)) or (None, None)
    (_, guessed) = parsing.prompt_logprobs([None, entry], None) or (None, None)
    assert known is not None
    assert (known.token_id, known.logprob, known.rank) == (9, -5.0, 40)
    assert guessed is not None
    assert guessed.token_id == 1, "vLLM writes the standing token first"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "x", "token_id:", "token_id:²"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
RICH = [
    exchange["response"]["json"]
    for name, exchange in recorded(HEALTHY).items()
    if name in ("chat_with_logprobs", "chat_forced_tool", "completion_with_logprobs", "completion_with_prompt_logprobs")
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


@given(st.data())
def test_a_real_answer_with_anything_put_anywhere_is_a_reply_or_unusable(data: st.DataObject) -> None:
    body = json.loads(json.dumps(data.draw(st.sampled_from(RICH))))
    container, key = data.draw(st.sampled_from(list(places(body))))
    container[key] = data.draw(ANYTHING)
    with suppress(UnusableAnswer):
        parsing.reply_from(parse_object(json.dumps(body).encode(), "it"), elapsed_s=0)


CHUNKS = [
    json.loads(line[6:])
    for name in ("chat_stream_with_logprobs", "chat_forced_tool_stream", "completion_stream_with_logprobs")
    for line in recorded(HEALTHY)[name]["response"]["sse"].splitlines()
    if line.startswith("data: {")
]


class Scripted:
    """An `EventStream` of given events."""

    status = 200
    content_type = "text/event-stream"

    def __init__(self, *events: object) -> None:
        self._events = [json.dumps(event).encode() for event in events]

    def events(self) -> Iterator[tuple[float, bytes]]:
        yield from enumerate([*self._events, b"[DONE]"])

    def whole(self) -> Any:
        raise AssertionError("not asked for")


@given(st.data())
def test_a_real_stream_with_anything_put_anywhere_is_an_answer_or_unusable(data: st.DataObject) -> None:
    chunks = json.loads(json.dumps(data.draw(st.lists(st.sampled_from(CHUNKS), min_size=1, max_size=4))))
    container, key = data.draw(st.sampled_from(list(places(chunks))))
    container[key] = data.draw(ANYTHING)
    with suppress(CouldNotJudge):
        read_stream(Scripted(*chunks), "it", lambda _: None)
