"""What came back from a server, in the field's own words, kept apart from what it means.

An HTTP answer with an error status is a `Refusal`, a value: a gate must judge it (NaN logits show as HTTP 400 or
500). Only the absence of an answer is an exception (`NoAnswer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """One position: the token that stands there and the top-k of the server's distribution.

    `top` maps token id to logprob in nats. It includes the chosen token, and may hold it as entry k + 1.
    `token_id` and `logprob` are None where the server did not say (`prompt_logprobs[0]`, gateways without ids).
    Non-finite logprobs are kept as they came: judging them is not the client's work.
    """

    token_id: int | None
    logprob: float | None
    rank: int | None = None
    top: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as the server gave it: `arguments` is the raw string, parsed by nobody yet."""

    id: str
    name: str
    arguments: str
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts by the server's own account; None where it gave none."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A generation that came back with HTTP 2xx. Text fields are "" when absent or null.

    `token_ids` and `prompt_token_ids` are None when the server did not give them (an older vLLM or a gateway drops
    `return_token_ids` silently). `logprobs` has one entry a generated token, `prompt_logprobs` one a prompt token
    with the first None. `nonfinite` counts NaN and Infinity anywhere in the body. `raw` is the parsed body (for a
    stream: the chunks' reassembly), for evidence.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    stop_reason: str = ""
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
    usage: Usage = Usage()
    system_fingerprint: str = ""
    model: str = ""
    nonfinite: int = 0
    elapsed_s: float = 0.0
    first_token_s: float | None = None
    """Seconds to the first content, streams only."""
    streamed: bool = False
    raw: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An HTTP answer with an error status, or an error event inside a stream that began with 200."""

    status: int
    message: str
    body: str = ""
    elapsed_s: float = 0.0
    in_stream: bool = False

    @property
    def says_nonfinite(self) -> bool:
        """Whether this is the wording of NaN logits that JSON could not carry, of any vLLM version."""
        return "out of range float values" in f"{self.message} {self.body}".lower()


Answer = Reply | Refusal
