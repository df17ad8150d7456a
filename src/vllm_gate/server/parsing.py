"""OpenAI-compatible response bodies as `Reply`: chat and text completions, whole and reassembled from a stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vllm_gate.errors import UnusableAnswer
from vllm_gate.server.fields import count, mapping, number, sequence, text, token_ids
from vllm_gate.server.json_body import JsonBody
from vllm_gate.server.reply import Refusal, Reply, TokenLogprobs, ToolCall, Usage


def reply_from(
    body: JsonBody, *, elapsed_s: float, streamed: bool = False, first_token_s: float | None = None
) -> Reply:
    """A `Reply` from a whole response. Raises UnusableAnswer when it holds no choice."""
    raw = body.value
    choice = first_choice(raw)
    message = mapping(choice.get("message"))
    prompt_ids = token_ids(raw.get("prompt_token_ids") or choice.get("prompt_token_ids"))
    logprobs = generated_logprobs(choice.get("logprobs"))
    # In a stream, vLLM writes null where the logprob of a generated token is NaN: JSON has no other word for it.
    nulls = sum(position.logprob is None for position in logprobs or ()) if streamed else 0
    return Reply(
        text=text(message.get("content") if message else choice.get("text")),
        reasoning=text(message.get("reasoning") or message.get("reasoning_content")),
        tool_calls=tuple(_tool_call(index, call) for index, call in enumerate(sequence(message.get("tool_calls")))),
        finish_reason=text(choice.get("finish_reason")),
        stop_reason=text(choice.get("stop_reason")),
        token_ids=token_ids(choice.get("token_ids")),
        prompt_token_ids=prompt_ids,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs(raw.get("prompt_logprobs") or choice.get("prompt_logprobs"), prompt_ids),
        usage=usage_from(raw.get("usage")),
        system_fingerprint=text(raw.get("system_fingerprint")),
        model=text(raw.get("model")),
        nonfinite=body.nonfinite + nulls,
        elapsed_s=elapsed_s,
        first_token_s=first_token_s,
        streamed=streamed,
        raw=raw,
    )


def refusal_from(status: int, body: bytes, *, elapsed_s: float, in_stream: bool = False) -> Refusal:
    """An error answer. Servers word it as {"error": {"message"}}, {"message"}, {"detail"} or plain text."""
    said = body.decode("utf-8", errors="replace")
    try:
        parsed = json.loads(said)
    except (ValueError, RecursionError):
        parsed = None
    message = _message(parsed) or said.strip() or "no text"
    return Refusal(status=status, message=message[:500], body=said[:4000], elapsed_s=elapsed_s, in_stream=in_stream)


def generated_logprobs(value: object) -> tuple[TokenLogprobs, ...] | None:
    """Logprobs of generated tokens, in the chat form (`content`) or the completions form (parallel lists).

    Token ids are read from `token_id:N`, which `return_tokens_as_token_ids` asks for; tokens told as text alone
    have no id and no `top`, for two tokens may share a text.
    """
    fields = mapping(value)
    if isinstance(fields.get("content"), list):
        return tuple(_chat_position(mapping(entry)) for entry in sequence(fields["content"]))
    if isinstance(fields.get("tokens"), list):
        tokens = sequence(fields["tokens"])
        chosen = sequence(fields.get("token_logprobs"))
        tops = sequence(fields.get("top_logprobs")) or [None] * len(tokens)
        if not len(tokens) == len(chosen) == len(tops):
            raise UnusableAnswer(
                f"logprobs of {len(chosen)} tokens and {len(tops)} alternatives for {len(tokens)} tokens"
            )
        return tuple(_position(*entry) for entry in zip(tokens, chosen, tops, strict=True))
    return None


def prompt_logprobs(value: object, ids: Sequence[int] | None) -> tuple[TokenLogprobs | None, ...] | None:
    """Logprobs of prompt tokens: a list with one mapping (token id to logprob and rank) a position, the first null.

    `ids` are the prompt's own tokens. Without them the first key of each mapping is taken: vLLM puts it there.
    """
    if not isinstance(value, list):
        return None
    tokens = ids if ids is not None and len(ids) == len(value) else [None] * len(value)
    return tuple(
        _prompt_position(entry, token) if isinstance(entry, dict) and entry else None
        for entry, token in zip(value, tokens, strict=True)
    )


def usage_from(value: object) -> Usage:
    """Token counts; None where the server gave none."""
    fields = mapping(value)
    details = mapping(fields.get("prompt_tokens_details"))
    return Usage(
        prompt_tokens=count(fields.get("prompt_tokens")),
        completion_tokens=count(fields.get("completion_tokens")),
        cached_tokens=count(details.get("cached_tokens")),
    )


def first_choice(raw: Mapping[str, object]) -> Mapping[str, Any]:
    """The first choice. Raises UnusableAnswer without one."""
    choices = sequence(raw.get("choices"))
    if not choices or not isinstance(choices[0], dict):
        raise UnusableAnswer(f"the answer holds no choice, only {sorted(map(str, raw))[:8]}")
    return choices[0]


def is_error(raw: Mapping[str, object]) -> bool:
    """Whether an event inside a stream is an error, in the present form or in vLLM's older one."""
    return bool(raw.get("error")) or raw.get("object") == "error"


def merged(chunks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One whole response body from the chunks of a stream, so that both are read by the same code.

    Deltas are concatenated; tool calls by their `index`, arguments as text; logprobs and token ids are appended.
    """
    whole: dict[str, Any] = {}
    choice: dict[str, Any] = {}
    message: dict[str, Any] = {}
    for chunk in chunks:
        whole |= {key: value for key, value in chunk.items() if key != "choices" and value is not None}
        for part in sequence(chunk.get("choices"))[:1]:
            _add_choice(choice, message, mapping(part))
    if message:
        calls = message.pop("tool_calls", {})
        message |= {"tool_calls": [calls[index] for index in sorted(calls)]} if calls else {}
        choice["message"] = message
    if choice:
        whole["choices"] = [choice]
    return whole


def _add_choice(choice: dict[str, Any], message: dict[str, Any], part: Mapping[str, Any]) -> None:
    for key, value in part.items():
        if value is None:
            continue
        if key == "delta":
            _add_delta(message, mapping(value))
        elif key == "text":
            choice["text"] = choice.get("text", "") + text(value)
        elif key == "token_ids":
            choice["token_ids"] = [*choice.get("token_ids", []), *sequence(value)]
        elif key == "logprobs":
            kept = choice.setdefault("logprobs", {})
            for name, entries in mapping(value).items():
                kept[name] = [*kept.get(name, []), *sequence(entries)]
        else:
            choice[key] = value


def _add_delta(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for key, value in delta.items():
        if key == "tool_calls":
            calls = message.setdefault("tool_calls", {})
            for position, call in enumerate(map(mapping, sequence(value))):
                index = count(call.get("index"))
                _add_call(calls.setdefault(position if index is None else index, {}), call)
        elif key in ("content", "reasoning", "reasoning_content"):
            message[key] = message.get(key, "") + text(value)
        elif value is not None:
            message[key] = value


def _add_call(kept: dict[str, Any], call: Mapping[str, Any]) -> None:
    """The id and the name come once (some servers repeat them), the arguments piece by piece."""
    kept["id"] = kept.get("id") or call.get("id")
    function = kept.setdefault("function", {"name": "", "arguments": ""})
    piece = mapping(call.get("function"))
    function["name"] = function["name"] or text(piece.get("name"))
    function["arguments"] += text(piece.get("arguments"))


def _chat_position(entry: Mapping[str, Any]) -> TokenLogprobs:
    top = {
        token: alternative["logprob"]
        for alternative in map(mapping, sequence(entry.get("top_logprobs")))
        if (token := _token_id(alternative.get("token"))) is not None and number(alternative.get("logprob")) is not None
    }
    return _with_chosen(_token_id(entry.get("token")), entry.get("logprob"), top)


def _position(token: object, logprob: object, top: object) -> TokenLogprobs:
    alternatives = {
        alternative: value
        for name, value in mapping(top).items()
        if (alternative := _token_id(name)) is not None and number(value) is not None
    }
    return _with_chosen(_token_id(token), logprob, alternatives)


def _with_chosen(token: int | None, logprob: object, top: dict[int, float]) -> TokenLogprobs:
    chosen = number(logprob)
    if token is not None and chosen is not None:
        top.setdefault(token, chosen)
    return TokenLogprobs(token_id=token, logprob=chosen, top=top)


def _prompt_position(entry: Mapping[str, Any], token: int | None) -> TokenLogprobs:
    fields = {int(key): mapping(value) for key, value in entry.items() if _is_id(key)}
    own = token if token in fields else next(iter(fields), None)
    stood = fields.get(own, {}) if own is not None else {}
    return TokenLogprobs(
        token_id=own,
        logprob=number(stood.get("logprob")),
        rank=count(stood.get("rank")),
        top={key: value["logprob"] for key, value in fields.items() if number(value.get("logprob")) is not None},
    )


def _token_id(name: object) -> int | None:
    kind, _, digits = str(name).rpartition(":")
    return int(digits) if kind == "token_id" and _is_id(digits) else None


def _is_id(digits: str) -> bool:
    return digits.isascii() and digits.isdecimal() and len(digits) < 10


def _tool_call(index: int, value: object) -> ToolCall:
    call = mapping(value)
    function = mapping(call.get("function"))
    arguments = function.get("arguments")
    return ToolCall(
        id=text(call.get("id")),
        name=text(function.get("name")),
        arguments=arguments if isinstance(arguments, str) else "" if arguments is None else str(arguments),
        index=index,
    )


def _message(parsed: object) -> str:
    if isinstance(parsed, dict):
        for key in ("error", "message", "detail"):
            if found := _message(parsed.get(key)):
                return found
        return ""
    return parsed if isinstance(parsed, str) else ""
