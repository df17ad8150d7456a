"""Asking a service for traces: its own continuation of prompts, and its view of texts that are given to it.

Everything goes by token ids, never by text. Each request has a cache salt of its own, so that no earlier one can
answer for it. A server that computes NaN is believed at once: such a request is neither repeated nor left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files

from vllm_gate.errors import CouldNotJudge, UnusableAnswer
from vllm_gate.gates.asking import ask_all
from vllm_gate.gates.interface import Progress
from vllm_gate.judge.positions import Positions, pack
from vllm_gate.judge.trace import Trace
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal, Reply, TokenLogprobs

TOP_K = (20, 5)
"""The k of top-k that is asked for, and what is asked for when a server caps it."""
_CAPPED = re.compile(r"\b(?:max|greater|at most|less|exceed|larger|between|up to)", re.IGNORECASE)
"""Words of a refusal of the number; without one, it is the field itself that a server does not take."""
MOST_TOKENS = 2000
"""Scored tokens a request: prompt logprobs of more may exhaust a server's memory."""


class NonFiniteError(CouldNotJudge):
    """A server's answer proves NaN or infinity. Carries whose it is, and the refusal or reply that does."""

    def __init__(self, message: str, service: str, answer: Answer) -> None:
        super().__init__(f"{service}: {message}")
        self.service = service
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
        return self._each("continuations", [partial(self._continue, *prompt, length) for prompt in prompts])

    def scores(self, traces: Sequence[Trace], *, concurrency: int | None = None) -> list[Trace]:
        """The same traces with `forced` filled: the distribution at every token of each continuation."""
        return self._each("scored texts", [partial(self._score, trace) for trace in traces], concurrency)

    def read(self, texts: Sequence[tuple[str, str]]) -> list[Trace]:
        """Given texts as this service tokenises them, with its probability of each token after the first."""
        return self._each("read texts", [partial(self._read, *text) for text in texts])

    def reread(self, traces: Sequence[Trace]) -> list[Trace]:
        """The same token ids as another service's `read`, with this service's probabilities."""
        return self._each("read texts", [partial(self._reread, trace) for trace in traces])

    def _read(self, text_id: str, text: str) -> Trace:
        reply = self._ask(text, 1, "prompt_logprobs", top=1)
        if reply.prompt_token_ids is None:
            self.can.note(f"{self.service.name} gives no token ids, so perplexity can't be compared")
            return Trace(prompt_id=text_id, token_ids=(), start=0)
        trace = Trace(prompt_id=text_id, token_ids=reply.prompt_token_ids, start=1)
        return self._with_forced(trace, reply)

    def _reread(self, trace: Trace) -> Trace:
        return self._with_forced(trace, self._ask(list(trace.token_ids), 1, "prompt_logprobs", top=1))

    def _continue(self, prompt_id: str, prompt: Sequence[int] | str, length: int) -> Trace:
        reply = self._ask(prompt, length, "logprobs")
        if reply.logprobs is None:
            self._lacks("logprobs")
        ids = reply.prompt_token_ids or (None if isinstance(prompt, str) else tuple(prompt))
        if ids is None or reply.token_ids is None:
            self.can.note(f"{self.service.name} gives no token ids, so texts can't be lined up token by token")
            return Trace(prompt_id=prompt_id, token_ids=(), start=0)
        generated = reply.token_ids
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
        reply = self._ask(ids, 1, "prompt_logprobs")
        return self._with_forced(trace, reply)

    def _with_forced(self, trace: Trace, reply: Reply) -> Trace:
        positions, ids = reply.prompt_logprobs, trace.token_ids[:MOST_TOKENS]
        if positions is None:
            self._lacks("prompt_logprobs")
            return trace
        if len(positions) != len(ids):
            raise UnusableAnswer(f"{self.service.name} scored {len(positions)} of {len(ids)} tokens")
        return replace(trace, forced=self._packed(positions[trace.start :], ids[trace.start :]))

    def _ask(self, prompt: str | Sequence[int], max_tokens: int, logprobs: str, top: int | None = None) -> Reply:
        """One completion with top-k `logprobs` (the field's name); a server that caps k is asked again with less, and
        one that does not take the field at all without it.

        Raises NonFiniteError on proof of NaN.
        """
        while True:
            self._sent += 1
            salt = f"{self._salt}-{self._sent}"
            k = self.can.k if top is None else top
            taken = self.can.logprobs if logprobs == "logprobs" else self.can.prompt_logprobs
            fields = {logprobs: k} if taken else {}
            answer = self.service.complete(prompt, max_tokens=max_tokens, **fields, cache_salt=salt)  # type: ignore[arg-type]
            if isinstance(answer, Reply):
                if answer.nonfinite:
                    raise NonFiniteError(
                        f"{answer.nonfinite} numbers in the answer are not finite", self.service.name, answer
                    )
                return answer
            self._step_down(answer, fields, prompt, max_tokens)

    def _step_down(
        self, refusal: Refusal, asked: Mapping[str, int], prompt: str | Sequence[int], max_tokens: int
    ) -> None:
        """Make the next attempt ask for less than `asked`, unless another thread has done so meanwhile.

        Raises NonFiniteError, or UnusableAnswer when there is nothing less to ask for.
        """
        if refusal.says_nonfinite or refusal.status >= 500:
            plain = self.service.complete(prompt, max_tokens=max_tokens)
            if refusal.says_nonfinite or isinstance(plain, Reply):
                alone = " (without logprobs the same request is answered)" if isinstance(plain, Reply) else ""
                message = f"HTTP {refusal.status} {refusal.message!r} on a request for logprobs{alone}"
                raise NonFiniteError(message, self.service.name, refusal)
        if asked and "logprobs" in refusal.message:
            ((name, k),) = asked.items()
            smaller = next((less for less in TOP_K if less < k), None) if _CAPPED.search(refusal.message) else None
            if smaller is None:
                self._lacks(name)
            else:
                self.can.k = min(self.can.k, smaller)
                self.can.note(f"{self.service.name} lists at most {smaller} tokens a position: drift is a lower bound")
            return
        raise UnusableAnswer(f"{self.service.name} refuses a completion: HTTP {refusal.status}: {refusal.message}")

    def _lacks(self, name: str) -> None:
        """The service does not answer a field; it is not asked for it again."""
        if name == "logprobs":
            self.can.logprobs = False
            self.can.note(
                f"{self.service.name} gives no logprobs of what it generates, so its decoding can't be compared"
            )
        else:
            self.can.prompt_logprobs = False
            self.can.note(f"{self.service.name} gives no prompt logprobs, so only its own decoding can be compared")

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
    rows = json.loads(files("vllm_gate.gates.consistency").joinpath("texts/prompts.json").read_text(encoding="utf-8"))
    ordered = sorted(enumerate(rows), key=lambda pair: (int(pair[1]["id"].rpartition("-")[2]), pair[0]))
    return tuple((row["id"], row["text"]) for _, row in ordered)


def prose() -> tuple[tuple[str, str], ...]:
    """The shipped human text for perplexity: (id, paragraphs of one scene)."""
    text = files("vllm_gate.gates.consistency").joinpath("texts/perplexity.txt").read_text(encoding="utf-8")
    paragraphs = text.strip().split("\n\n")
    return tuple((f"prose-{number}", paragraph) for number, paragraph in enumerate(paragraphs, start=1))
