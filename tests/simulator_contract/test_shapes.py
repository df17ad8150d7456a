"""The comparison itself: it must see what is missing, added or of another type, and nothing else."""

from __future__ import annotations

from tests.simulator_contract.recordings import FAULTY, HEALTHY, departures, recorded
from tests.simulator_contract.shapes import difference, events, metric_types, shape


def test_values_do_not_matter() -> None:
    assert difference(shape({"id": "a", "n": 1}), shape({"id": "b", "n": 2.5}), other_name="it") == []


def test_a_missing_an_added_and_a_retyped_field_are_told() -> None:
    real, other = {"a": {"b": 1}, "c": "x"}, {"a": {"d": 1}, "c": 3}

    assert difference(shape(real), shape(other), other_name="it") == [
        "it adds a.d",
        "it has number at c, not string",
        "it lacks a.b",
    ]


def test_null_and_empty_lists_say_nothing_about_what_they_could_hold() -> None:
    full = {"usage": {"n": 1}, "calls": [{"name": "f"}]}

    assert difference(shape(full), shape({"usage": None, "calls": []}), other_name="it") == []
    assert difference(shape({"usage": None, "calls": []}), shape(full), other_name="it") == []


def test_a_field_inside_a_list_is_told() -> None:
    assert difference(shape({"data": [{"id": "a", "root": "b"}]}), shape({"data": [{"id": "a"}]}), other_name="it") == [
        "it lacks data[].root"
    ]


def test_keys_that_are_tokens_do_not_matter() -> None:
    real = {"prompt_logprobs": [None, {"12": {"logprob": -1.0}}]}

    assert difference(shape(real), shape({"prompt_logprobs": [None, {"7": {"logprob": -2.0}}]}), other_name="it") == []
    assert difference(shape(real), shape({"prompt_logprobs": [None, {"7": {"rank": 1}}]}), other_name="it") == [
        "it adds prompt_logprobs[].{}.rank",
        "it lacks prompt_logprobs[].{}.logprob",
    ]


def test_a_stream_must_end_and_hold_the_same_chunks() -> None:
    real = {
        "status": 200,
        "content_type": "text/event-stream",
        "sse": _sse('{"a": 1}', '{"b": 1}', '{"c": 1}', "[DONE]"),
    }
    cut = {**real, "sse": _sse('{"a": 1}', '{"b": 1}', '{"c": 1}')}
    other = {**real, "sse": _sse('{"a": 1}', '{"x": 1}', '{"c": 1}', "[DONE]")}

    assert departures(real, real, of="it") == []
    assert departures(real, cut, of="it") == ["it does not end its stream with [DONE]"]
    assert departures(real, other, of="it") == ["chunks: it adds x", "chunks: it lacks b"]


def test_another_status_is_told_with_what_came() -> None:
    real = {"status": 400, "content_type": "application/json", "json": {"error": {"message": "no"}}}

    assert departures(real, {"status": 200, "json": {"id": "x"}}, of="it") == [
        "it answers 200, not 400: {'status': 200, 'json': {'id': 'x'}}"
    ]


def test_a_metric_of_another_type_is_told_and_a_missing_one_is_not() -> None:
    text = "# TYPE vllm:a_total counter\n# TYPE vllm:b gauge\n"
    real = {"status": 200, "content_type": "text/plain", "text": text}

    assert metric_types(text) == {"vllm:a_total": "counter", "vllm:b": "gauge"}
    assert departures(real, {**real, "text": "# TYPE vllm:a_total gauge\n"}, of="it") == [
        "it has vllm:a_total as gauge, not counter"
    ]


def test_the_recordings_show_the_fault_only_where_numbers_are_asked_for() -> None:
    healthy, faulty = recorded(HEALTHY), recorded(FAULTY)
    nan = "Out of range float values are not JSON compliant"

    refused = {name for name, answer in faulty.items() if nan in str(answer["response"])}
    assert refused == {
        "chat_with_logprobs",
        "chat_with_logprobs_as_text",
        "chat_with_prompt_logprobs",
        "completion_with_logprobs",
        "completion_with_logprobs_as_text",
        "completion_with_prompt_logprobs",
        "completion_with_echo",
    }
    same = healthy.keys() - refused
    assert {name: faulty[name]["response"]["status"] for name in same} == {
        name: healthy[name]["response"]["status"] for name in same
    }
    choice = faulty["chat_with_token_ids"]["response"]["json"]["choices"][0]
    assert (choice["token_ids"], choice["message"]["content"]) == ([0] * 8, "")


def test_a_stream_of_the_faulty_server_carries_nan_as_null() -> None:
    (_, *chunks, done) = events(recorded(FAULTY)["chat_stream_with_logprobs"]["response"]["sse"])

    logprobs = [position["logprob"] for chunk in chunks for position in chunk["choices"][0]["logprobs"]["content"]]
    assert done == "[DONE]"
    assert logprobs == [None, None, None]


def _sse(*data: str) -> str:
    return "".join(f"data: {line}\n\n" for line in data)
