"""Texts of an exact number of prompt tokens, with facts at five depths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vllm_gate.errors import CouldNotJudge
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Reply

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
MIDDLE = 2
_PLACES = tuple(f"gate {number}" for number in range(1, 6))
"""Single digits take one token in every common vocabulary, so that all five questions are equally long."""
_SENTENCES = (
    "The road follows the river for some miles and then turns away from it. ",
    "In the morning the market is quiet, and most of the windows are still closed. ",
    "A letter was kept in the drawer of the table, but nobody had read it. ",
    "After the rain the light changes, and the hills seem to be closer than before. ",
    "People who live in the valley say that the summer is always too short. ",
)
_MOST_COUNTS = 9
_PROBE = 100
"""Sentences from which the tokens of one are reckoned."""

Message = Mapping[str, object]
Counter = Callable[[Sequence[Message]], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPrompt:
    """A text of `tokens` prompt tokens once a question is added; `facts` are place and code, by depth.

    It is made of `units` sentences and `words` single ones.
    """

    tokens: int
    facts: tuple[tuple[str, str], ...]
    units: int
    words: int

    @property
    def text(self) -> str:
        """Everything but the question."""
        return _text(self.facts, self.units, self.words)

    def messages(self, depth: int) -> list[Message]:
        """The conversation that asks for the fact at one depth."""
        return [{"role": "user", "content": self.text + question(self.facts[depth][0])}]


def build(length: int, count: Counter, rng: np.random.Generator) -> LongPrompt:
    """A prompt of exactly `length` tokens with its question, as `count` counts; at most nine counts.

    Where padding can't hit the length, the closest prompt found is returned: `tokens` says how long it is.
    """
    facts = tuple((place, str(rng.integers(10_000, 99_999))) for place in _PLACES)
    empty = LongPrompt(tokens=0, facts=facts, units=0, words=0)

    def counted(units: int, words: int) -> int:
        return count(replace(empty, units=units, words=words).messages(0))

    bare = counted(0, 0)
    per_unit = max((counted(_PROBE, 0) - bare) / _PROBE, 1.0)
    units, words = max(int((length - bare) / per_unit) - 1, 0), 0
    tried: dict[tuple[int, int], int] = {}
    for _ in range(_MOST_COUNTS - 2):
        tried[units, words] = counted(units, words)
        gap = length - tried[units, words]
        if gap == 0:
            break
        if gap < -words or gap > 4 * per_unit:
            units = max(units + int(gap / per_unit) - (gap < 0), 0)
        else:
            words += gap
    closest = min(tried, key=lambda key: abs(length - tried[key]))
    return replace(empty, units=closest[0], words=closest[1], tokens=tried[closest])


def beside(prompt: LongPrompt, step: int, count: Counter, rng: np.random.Generator) -> LongPrompt:
    """The same text with `step` tokens more, or another one of that length where a word less or more can't do it."""
    words = prompt.words + step
    if words >= 0:
        changed = replace(prompt, words=words)
        tokens = count(changed.messages(0))
        if tokens == prompt.tokens + step:
            return replace(changed, tokens=tokens)
    return build(prompt.tokens + step, count, rng)


def _text(facts: Sequence[tuple[str, str]], units: int, words: int) -> str:
    """`units` sentences with the facts at their depths, and `words` single words before the last part."""
    places = [min(int(depth * units), units) for depth in DEPTHS]
    parts = ["Read the text and remember the codes.\n\n"]
    for unit in range(units + 1):
        parts += [_fact(*facts[index]) for index, place in enumerate(places) if place == unit]
        if unit < units:
            parts.append(_SENTENCES[unit % len(_SENTENCES)])
    return "".join(parts) + " and" * words


def _fact(place: str, code: str) -> str:
    return f"The access code of the {place} is {code}. "


def question(place: str) -> str:
    """What is asked after the text."""
    return f"\n\nWhat is the access code of the {place}? Answer with the number only."


def counter(service: Service) -> tuple[Counter, bool]:
    """A function that counts a conversation's prompt tokens, and whether the server's own tokenizer does it."""
    if service.tokenize_chat([{"role": "user", "content": "x"}]) is not None:
        return (lambda messages: len(service.tokenize_chat(messages) or ())), True

    def by_usage(messages: Sequence[Message]) -> int:
        answer = service.chat(messages, max_tokens=1)
        tokens = answer.usage.prompt_tokens if isinstance(answer, Reply) else None
        if tokens is None:
            raise CouldNotJudge(f"{service.name} neither tokenises nor counts prompt tokens")
        return tokens

    return by_usage, False
