"""Asking for facts in a long text, and whether they came back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import ask_all
from vllm_gate.gates.capability.known import answer_of, ran_out_of_thinking
from vllm_gate.gates.capability.long_prompt import DEPTHS, LongPrompt, question
from vllm_gate.gates.interface import Context
from vllm_gate.judge.degeneration import degenerations, foreign_script
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal, Reply

ROOM = 32
"""Tokens kept for the answer."""
_ORDINARY = frozenset(
    [
        "i",
        "i'm",
        "am",
        "sorry",
        "no",
        "not",
        "none",
        "nothing",
        "can",
        "cannot",
        "can't",
        "could",
        "find",
        "found",
        "know",
        "there",
        "this",
        "that",
        "it",
        "its",
        "was",
        "were",
        "isn't",
        "mentioned",
        "given",
        "provided",
        "information",
        "text",
        "a",
        "an",
        "as",
        "to",
        "of",
        "in",
        "and",
        "or",
        "but",
        "you",
        "your",
        "for",
        "with",
        "does",
        "do",
        "doesn't",
        "don't",
        "following",
        "number",
        "numbers",
        "codes",
        "gates",
        "answer",
    ]
)
"""Words of a sound answer that lacks the fact, beside those of the question."""
_SALAD_WORDS = 4
_WORD = re.compile(r"[a-z']+")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a prompt and what came back; `right` is None where it could not be judged."""

    length: int
    depth: int
    answer: Answer | CouldNotJudge
    right: bool | None
    garbage: bool = False

    @property
    def mark(self) -> str:
        """One word for the table."""
        return "not judged" if self.right is None else "found" if self.right else "garbage" if self.garbage else "lost"

    def __str__(self) -> str:
        return f"{self.length:>7} tokens, depth {DEPTHS[self.depth]:>4.0%}: {self.mark}"


@dataclass(slots=True)
class Cost:
    """What the questions of one length took."""

    seconds: float = 0.0
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    counts: int = 0
    """Calls of the tokenizer."""

    def facts(self) -> dict[str, object]:
        """For the report."""
        return {
            "seconds": round(self.seconds, 2),
            "requests": self.requests,
            "prompt_tokens_sent": self.prompt_tokens,
            "of_them_cached": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "tokenizer_calls": self.counts,
        }


@dataclass(slots=True)
class Pace:
    """How far the long prompts are, in prompt tokens, and how long the rest will take."""

    context: Context
    total: int
    started: float = 0.0
    done: int = 0

    def __post_init__(self) -> None:
        self.started = self.context.now()

    def tell(self, what: str, tokens: int) -> None:
        """Count `tokens` as asked."""
        self.done += tokens
        self.total = max(self.total, self.done)
        rest = (self.context.now() - self.started) * (self.total - self.done) / max(self.done, 1)
        self.context.progress(f"{what}, about {rest:.0f} s left", self.done, self.total, "prompt tokens")


@dataclass(slots=True, kw_only=True)
class Asker:
    """Asks one service. `room` is what its model may think before it answers, in tokens."""

    context: Context
    service: Service
    room: int
    pace: Pace
    cost: Cost = field(default_factory=Cost)

    def ask(self, prompt: LongPrompt, depths: Sequence[int]) -> list[Asked]:
        """The questions of `depths`, in order. The first goes alone: it fills the cache that the others read."""
        salt = f"context-{self.context.rng.integers(2**48):012x}"
        found: list[Asked] = []

        def seen(index: int, answer: Answer | CouldNotJudge, part: Sequence[int]) -> bool:
            found.append(judged(prompt, part[index], answer))
            self._count(answer)
            self.pace.tell(f"{self.service.name}: {prompt.tokens} prompt tokens", prompt.tokens)
            return False

        for part in _alone_first(depths):
            asks = [partial(self._ask, prompt, depth, salt) for depth in part]
            ask_all(asks, self.context.plan.gates.long_context.concurrency, partial(seen, part=part))
        return sorted(found, key=lambda one: one.depth)

    def _ask(self, prompt: LongPrompt, depth: int, salt: str) -> Answer:
        return self.service.chat(prompt.messages(depth), max_tokens=ROOM - 8 + self.room, cache_salt=salt)

    def _count(self, answer: Answer | CouldNotJudge) -> None:
        self.cost.requests += 1
        if isinstance(answer, Reply):
            self.cost.prompt_tokens += answer.usage.prompt_tokens or 0
            self.cost.cached_tokens += answer.usage.cached_tokens or 0
            self.cost.completion_tokens += answer.usage.completion_tokens or 0


def _alone_first(depths: Sequence[int]) -> Iterator[Sequence[int]]:
    yield depths[:1]
    if len(depths) > 1:
        yield depths[1:]


def judged(prompt: LongPrompt, depth: int, answer: Answer | CouldNotJudge) -> Asked:
    """Right, lost, garbage, or nothing that could be judged."""
    place = prompt.tokens, depth
    if not isinstance(answer, Reply):
        broken = isinstance(answer, Refusal) and (answer.says_nonfinite or answer.status >= 500)
        return Asked(*place, answer, False if broken else None, garbage=broken)
    if ran_out_of_thinking(answer):
        return Asked(*place, answer, None)
    said, (where, code) = answer_of(answer), prompt.facts[depth]
    right = re.search(rf"(?<!\d){code}(?!\d)", re.sub(r"(?<=\d)[, ](?=\d{3})", "", said)) is not None
    return Asked(*place, answer, right, garbage=not right and is_garbage(answer, said, question(where)))


def is_garbage(reply: Reply, said: str, asked: str) -> bool:
    """Whether a wrong answer is no answer at all: a loop, broken characters, or words without sense.

    A sound answer names some number, or says in ordinary words that it has none.
    """
    ids = reply.token_ids or ()
    wordless = len(said.strip()) >= _SALAD_WORDS and not re.search(r"\w", said)
    if wordless or "\ufffd" in said or (len(ids) >= 8 and len(set(ids)) == 1):
        return True
    if any(one.certain for one in degenerations(said, finish_reason=reply.finish_reason)):
        return True
    strange = foreign_script(said, asked)
    if strange is not None and strange[1] > 0.5:
        return True
    words = _WORD.findall(said.lower())
    if len(words) < _SALAD_WORDS or re.search(r"\d{3}", said):
        return False
    expected = _ORDINARY | set(_WORD.findall(asked.lower()))
    return sum(word in expected for word in words) < len(words) / 2
