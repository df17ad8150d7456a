"""What is asked of a real vLLM and of the simulator alike, as data: one request a row, under a name that says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FRANCE = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]
GREEDY: Mapping[str, Any] = {"temperature": 0}
WITH_IDS: Mapping[str, Any] = {"return_token_ids": True, "return_tokens_as_token_ids": True}
NUMBER_TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two integers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}
CITY_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "population": {"type": "integer"}},
    "required": ["city", "population"],
    "additionalProperties": False,
}
SHORT_IDS = [53, 54, 55, 56]
"""Token ids that every vocabulary has, whatever they mean in it."""
_LONG_IDS = list(range(40, 60)) * 15
"""300 token ids: two full cache blocks of 128 and a rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request. `body` is sent as JSON with the served model's name added; `raw` is sent as it stands."""

    name: str
    path: str
    method: str = "POST"
    body: Mapping[str, Any] | None = None
    raw: str | None = None


def _get(name: str, path: str) -> Exchange:
    return Exchange(name=name, path=path, method="GET")


def _post(name: str, path: str, **body: Any) -> Exchange:
    return Exchange(name=name, path=path, body=body)


def _chat(name: str, **body: Any) -> Exchange:
    return _post(name, "/v1/chat/completions", **{"messages": FRANCE, "max_tokens": 8, **GREEDY, **body})


def _complete(name: str, **body: Any) -> Exchange:
    return _post(name, "/v1/completions", **{"prompt": "The capital of France is", "max_tokens": 3, **GREEDY, **body})


EXCHANGES = (
    _get("health", "/health"),
    _get("version", "/version"),
    _get("models", "/v1/models"),
    _get("server_info", "/server_info?config_format=json"),
    _get("unknown_path", "/v1/no_such_endpoint"),
    _get("wrong_method", "/v1/chat/completions"),
    _post("tokenize_prompt", "/tokenize", prompt="Hello, 世界!"),
    _post("tokenize_without_special_tokens", "/tokenize", prompt="Hello", add_special_tokens=False),
    _post("tokenize_with_token_strings", "/tokenize", prompt="Hello, 世界!", return_token_strs=True),
    _post("tokenize_messages", "/tokenize", messages=FRANCE),
    _post("detokenize", "/detokenize", tokens=SHORT_IDS),
    _post("tokenize_unknown_model", "/tokenize", prompt="Hello", model="no-such-model"),
    _chat("chat"),
    _chat("chat_with_token_ids", **WITH_IDS),
    _chat("chat_cut_at_max_tokens", messages=[{"role": "user", "content": "Tell me a long story."}], max_tokens=4),
    _chat("chat_with_logprobs", logprobs=True, top_logprobs=3, max_tokens=3, **WITH_IDS),
    _chat("chat_with_logprobs_as_text", logprobs=True, top_logprobs=2, max_tokens=2),
    _chat("chat_with_prompt_logprobs", prompt_logprobs=2, max_tokens=1, messages=[{"role": "user", "content": "Hi"}]),
    _chat("chat_with_stop_string", stop=[" is"], messages=[{"role": "user", "content": "Tell me about Paris."}]),
    _chat("chat_with_cache_salt", cache_salt="a-salt", max_tokens=2),
    _chat(
        "chat_with_seed_and_sampling_fields",
        seed=7,
        top_p=1,
        top_k=-1,
        min_p=0,
        repetition_penalty=1,
        presence_penalty=0,
        frequency_penalty=0,
        max_tokens=2,
    ),
    _chat("chat_stream", stream=True),
    _chat("chat_stream_with_usage", stream=True, stream_options={"include_usage": True}, max_tokens=4),
    _chat("chat_stream_with_token_ids", stream=True, stream_options={"include_usage": True}, max_tokens=4, **WITH_IDS),
    _chat("chat_stream_with_logprobs", stream=True, logprobs=True, top_logprobs=2, max_tokens=3, **WITH_IDS),
    _chat(
        "chat_json_schema",
        messages=[{"role": "user", "content": "Give the city Rome and its population as JSON."}],
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": CITY_SCHEMA}},
        max_tokens=40,
    ),
    _chat(
        "chat_forced_tool",
        messages=[{"role": "user", "content": "Add 2 and 3."}],
        tools=[NUMBER_TOOL],
        tool_choice={"type": "function", "function": {"name": "add"}},
        max_tokens=120,
    ),
    _chat(
        "chat_forced_tool_stream",
        messages=[{"role": "user", "content": "Add 2 and 3."}],
        tools=[NUMBER_TOOL],
        tool_choice={"type": "function", "function": {"name": "add"}},
        max_tokens=120,
        stream=True,
    ),
    _complete("completion"),
    _complete("completion_with_token_ids", **WITH_IDS),
    _complete("completion_with_logprobs", logprobs=3, **WITH_IDS),
    _complete("completion_with_logprobs_as_text", logprobs=2, max_tokens=2),
    _complete("completion_of_token_ids", prompt=SHORT_IDS, **WITH_IDS),
    _complete("completion_with_prompt_logprobs", prompt=SHORT_IDS, prompt_logprobs=3, max_tokens=1, **WITH_IDS),
    _complete("completion_with_echo", echo=True, logprobs=1, max_tokens=1),
    _complete("completion_stream", stream=True, stream_options={"include_usage": True}, **WITH_IDS),
    _complete("completion_stream_with_logprobs", stream=True, logprobs=2, max_tokens=2),
    _chat("error_unknown_model", model="no-such-model"),
    _chat("error_too_many_top_logprobs", logprobs=True, top_logprobs=99),
    _complete("error_too_many_logprobs", logprobs=99),
    _complete("error_too_many_prompt_logprobs", prompt_logprobs=99),
    _complete("error_prompt_too_long", prompt=[53] * 40_000),
    _chat("error_max_tokens_too_large", max_tokens=100_000),
    _chat("error_max_tokens_zero", max_tokens=0),
    _chat("error_temperature_negative", temperature=-1),
    _chat("error_messages_empty", messages=[]),
    _chat("chat_with_unknown_role", messages=[{"role": "narrator", "content": "Once"}]),
    _chat("error_prompt_logprobs_in_stream", stream=True, prompt_logprobs=1),
    _post("error_missing_messages", "/v1/chat/completions"),
    _complete("error_token_id_out_of_range", prompt=[10_000_000]),
    Exchange(name="error_bad_json", path="/v1/chat/completions", raw='{"model": "smollm2", '),
    _chat("chat_with_unknown_field", no_such_field=1, max_tokens=1),
    _complete("prefix_cache_miss", prompt=_LONG_IDS, cache_salt="prefix", max_tokens=1),
    _complete("prefix_cache_hit", prompt=_LONG_IDS, cache_salt="prefix", max_tokens=1),
    _complete("prefix_cache_other_salt", prompt=_LONG_IDS, cache_salt="another", max_tokens=1),
    _get("metrics", "/metrics"),
)
"""In this order: `metrics` comes last, so that its counters have something to count."""
