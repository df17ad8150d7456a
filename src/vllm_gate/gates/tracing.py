"""Asking a service for traces: its own continuation of prompts, and its view of texts that are given to it.

Everything goes by token ids, never by text. Each request has a cache salt of its own, so that no earlier one can
answer for it. A server that computes NaN is believed at once: such a request is neither repeated nor left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

from vllm_gate.errors import CouldNotJudge, UnusableAnswer
from vllm_gate.gates.asking import ask_all
from vllm_gate.gates.interface import Progress
from vllm_gate.judge.positions import Positions, pack
from vllm_gate.judge.trace import Trace
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal, Reply, TokenLogprobs

TOP_K = (20, 5)
"""The k of top-k that is asked for, and what is asked for when a server caps it."""
MOST_TOKENS = 2000
"""Scored tokens a request: prompt logprobs of more may exhaust a server's memory."""


class NonFiniteError(CouldNotJudge):
    """A server's answer proves NaN or infinity. Carries the refusal or the reply that does."""

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.answer = answer


@dataclass(slots=True)
class Capability:
    """What a service was found to be able to say; shared by all requests to it."""

    k: int = TOP_K[0]
    prompt_logprobs: bool = True
    logprobs: bool = True
    limits: list[str] = field(default_factory=list)

    def note(self, sentence: str) -> None:
        """Remember once what can't be judged."""
        if sentence not in self.limits:
            self.limits.append(sentence)


class Tracer:
    """Asks one service. `salt` makes its requests' cache salts unique."""

    def __init__(self, service: Service, *, concurrency: int, salt: str, progress: Progress) -> None:
        self.service = service
        self.can = Capability()
        self._concurrency = concurrency
        self._salt = salt
        self._progress = progress
        self._sent = 0

    def continuations(self, prompts: Sequence[tuple[str, Sequence[int] | str]], length: int) -> list[Trace]:
        """Greedy continuations of `length` tokens, with the distribution at each generated token."""
        return self._each("continuations", [lambda p=prompt: self._continue(*p, length) for prompt in prompts])

    def scores(self, traces: Sequence[Trace], *, concurrency: int | None = None) -> list[Trace]:
        """The same traces with `forced` filled: the distribution at every token of each continuation."""
        asks = [lambda t=trace: self._score(t) for trace in traces]
        return self._each("scored texts", asks, concurrency)

    def _continue(self, prompt_id: str, prompt: Sequence[int] | str, length: int) -> Trace:
        reply = self._ask(lambda k: dict(prompt=prompt, max_tokens=length, logprobs=k))
        if reply.logprobs is None and self.can.logprobs:
            self.can.logprobs = False
            self.can.note(f"{self.service.name} gives no logprobs, so its distributions can't be compared")
        if reply.token_ids is None or reply.prompt_token_ids is None:
            if isinstance(prompt, str):
                self.can.note(f"{self.service.name} gives no token ids, so texts can't be lined up token by token")
                return Trace(prompt_id=prompt_id, token_ids=(), start=0)
        ids = tuple(reply.prompt_token_ids or prompt)  # type: ignore[arg-type]
        generated = tuple(reply.token_ids or ())
        return Trace(
            prompt_id=prompt_id,
            token_ids=ids + generated,
            start=len(ids),
            decoded=self._packed(reply.logprobs, generated) if reply.logprobs is not None else None,
        )

    def _score(self, trace: Trace) -> Trace:
        if not self.can.prompt_logprobs or not trace.continuation:
            return trace
        ids = list(trace.token_ids[:MOST_TOKENS])
        reply = self._ask(lambda k: dict(prompt=ids, max_tokens=1, prompt_logprobs=k))
        positions = reply.prompt_logprobs
        if positions is None:
            self.can.prompt_logprobs = False
            self.can.note(f"{self.service.name} gives no prompt logprobs, so only its own decoding can be compared")
            return trace
        if len(positions) != len(ids):
            raise UnusableAnswer(f"{self.service.name} scored {len(positions)} of {len(ids)} tokens")
        return replace(trace, forced=self._packed(positions[trace.start :], ids[trace.start :]))

    def _ask(self, fields: Callable[[int], dict[str, Any]]) -> Reply:
        """One completion; a server that caps k is asked again with less. Raises NonFiniteError on proof of NaN."""
        while True:
            body = fields(self.can.k)
            prompt, max_tokens = body.pop("prompt"), body.pop("max_tokens")
            self._sent += 1
            answer = self.service.complete(
                prompt, max_tokens=max_tokens, cache_salt=f"{self._salt}-{self._sent}", **body
            )
            if isinstance(answer, Reply):
                if answer.nonfinite:
                    raise NonFiniteError(f"{answer.nonfinite} numbers in the answer are not finite", answer)
                return answer
            self._step_down(answer, body, prompt, max_tokens)

    def _step_down(self, refusal: Refusal, body: dict[str, Any], prompt: Any, max_tokens: int) -> None:
        """Make the next attempt ask for less. Raises NonFiniteError, or UnusableAnswer when there is nothing less."""
        if refusal.says_nonfinite or refusal.status >= 500:
            plain = self.service.complete(prompt, max_tokens=max_tokens)
            if refusal.says_nonfinite or isinstance(plain, Reply):
                also = "the same request without logprobs is answered" if isinstance(plain, Reply) else "it says so"
                raise NonFiniteError(
                    f"HTTP {refusal.status} {refusal.message!r} on a logprobs request; {also}", refusal
                )
        if "greater than max allowed" in refusal.message or "logprobs" in refusal.message:
            smaller = [k for k in TOP_K if k < self.can.k]
            if smaller:
                self.can.k = smaller[0]
                self.can.note(
                    f"{self.service.name} lists at most {self.can.k} tokens a position, so drift is a lower bound"
                )
                return
        raise UnusableAnswer(f"{self.service.name} refuses a completion: HTTP {refusal.status}: {refusal.message}")

    def _packed(self, positions: Sequence[TokenLogprobs | None], ids: Sequence[int]) -> Positions:
        rows = []
        for token, position in zip(ids, positions, strict=False):
            told = position or TokenLogprobs(token_id=token, logprob=None)
            logprob = told.top.get(token, told.logprob)
            rows.append((token, float("nan") if logprob is None else float(logprob), told.top.items()))
        return pack(rows, self.can.k)

    def _each(self, what: str, asks: Sequence[Callable[[], Trace]], concurrency: int | None = None) -> list[Trace]:
        """Every trace in order. The first proof of NaN, or the first failure, ends it at once."""
        found: dict[int, Trace] = {}
        problem: list[CouldNotJudge] = []

        def seen(index: int, result: Trace | CouldNotJudge) -> bool:
            if isinstance(result, CouldNotJudge):
                problem.append(result)
                return True
            found[index] = result
            self._progress(f"{self.service.name}: {what}", len(found), len(asks), "texts")
            return False

        ask_all(asks, concurrency or self._concurrency, seen)
        if problem:
            raise problem[0]
        return [found[index] for index in range(len(asks))]


def prompts() -> tuple[tuple[str, str], ...]:
    """The shipped prompts: (id, text). Mixed kinds stand next to each other, so that any first part is a fair one."""
    rows = json.loads(files("vllm_gate.gates").joinpath("texts/prompts.json").read_text(encoding="utf-8"))
    ordered = sorted(enumerate(rows), key=lambda pair: (int(pair[1]["id"].rpartition("-")[2]), pair[0]))
    return tuple((row["id"], row["text"]) for _, row in ordered)


def prose() -> tuple[tuple[str, str], ...]:
    """The shipped human text for perplexity: (id, paragraphs of one scene)."""
    text = files("vllm_gate.gates").joinpath("texts/perplexity.txt").read_text(encoding="utf-8")
    paragraphs = text.strip().split("\n\n")
    return tuple((f"prose-{number}", paragraph) for number, paragraph in enumerate(paragraphs, start=1))
