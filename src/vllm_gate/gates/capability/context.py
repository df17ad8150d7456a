"""Long prompts of an exact length, with facts at five depths that are asked for one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import answer_evidence, ask_all
from vllm_gate.gates.interface import Context
from vllm_gate.judge.degeneration import degenerations
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Answer, Refusal, Reply

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
_MIDDLE = 2
ROOM = 32
"""Tokens kept for the answer."""
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

Message = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPrompt:
    """A text of `tokens` prompt tokens once a question is added; `facts` are place and code, by depth."""

    text: str
    tokens: int
    facts: tuple[tuple[str, str], ...]

    def messages(self, depth: int) -> list[Message]:
        """The conversation that asks for the fact at one depth."""
        return [{"role": "user", "content": self.text + _question(self.facts[depth][0])}]


def build(length: int, count: Callable[[Sequence[Message]], int], rng: np.random.Generator) -> LongPrompt:
    """A prompt of exactly `length` tokens with its question, as `count` counts; at most nine counts.

    Where padding can't hit the length, the closest prompt found is returned: `tokens` says how long it is.
    """
    facts = tuple((place, str(rng.integers(10_000, 99_999))) for place in _PLACES)

    def prompt(units: int, words: int) -> LongPrompt:
        return LongPrompt(text=_text(facts, units, words), tokens=0, facts=facts)

    def counted(units: int, words: int) -> int:
        return count(prompt(units, words).messages(0))

    bare, probe = counted(0, 0), 100
    per_unit = max((counted(probe, 0) - bare) / probe, 1.0)
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
    return replace(prompt(*closest), tokens=tried[closest])


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


def _question(place: str) -> str:
    return f"\n\nWhat is the access code of the {place}? Answer with the number only."


def counter(service: Service) -> tuple[Callable[[Sequence[Message]], int], bool]:
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


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a prompt and what came back; `right` is None where it could not be judged."""

    length: int
    depth: float
    answer: Answer | CouldNotJudge
    right: bool | None
    degenerate: bool = False


def ask_context(context: Context, window: int | None) -> Iterator[Finding]:
    """Every configured length at five depths, and one token beside it in a quick form."""
    settings = context.plan.gates.long_context
    service = context.under_test
    count, exact = counter(service)
    asked: list[Asked] = []
    costs: dict[str, object] = {}
    for length in sorted(settings.context_lengths):
        if window is not None and length + ROOM > window:
            yield _too_long(context, length, window)
            continue
        started = context.now()
        prompt = build(length, count, context.rng)
        found = _ask(context, prompt, range(len(DEPTHS)), settings.concurrency)
        costs[str(length)] = {"prompt_tokens": prompt.tokens, "seconds": round(context.now() - started, 2)}
        asked += found
        yield _length_finding(context, prompt, found, exact)
        edges = [build(length + step, count, context.rng) for step in (-1, 1)]
        asked += [one for edge in edges for one in _ask(context, edge, [_MIDDLE], settings.concurrency)]
    context.facts["context"] = costs
    if asked:
        yield _edges(context, asked)


def _ask(context: Context, prompt: LongPrompt, depths: Sequence[int], concurrency: int) -> list[Asked]:
    service, found = context.under_test, []
    salt = f"context-{context.rng.integers(2**48):012x}"

    def seen(index: int, answer: Answer | CouldNotJudge) -> bool:
        depth = depths[index]
        found.append(_judged(prompt, depth, answer))
        context.progress(f"{prompt.tokens} prompt tokens", len(found), len(depths), "questions")
        return False

    asks = [partial(service.chat, prompt.messages(depth), max_tokens=ROOM - 8, cache_salt=salt) for depth in depths]
    ask_all(asks, concurrency, seen)
    return sorted(found, key=lambda one: one.depth)


def _judged(prompt: LongPrompt, depth: int, answer: Answer | CouldNotJudge) -> Asked:
    place = prompt.tokens, DEPTHS[depth]
    if not isinstance(answer, Reply):
        says_nan = isinstance(answer, Refusal) and (answer.says_nonfinite or answer.status >= 500)
        return Asked(*place, answer, False if says_nan else None)
    right = prompt.facts[depth][1] in answer.text.replace(",", "")
    ids = answer.token_ids or ()
    salad = "\ufffd" in answer.text or (len(ids) >= 8 and len(set(ids)) == 1)
    broken = salad or any(one.certain for one in degenerations(answer.text, finish_reason=answer.finish_reason))
    return Asked(*place, answer, right, degenerate=not right and broken)


def _length_finding(context: Context, prompt: LongPrompt, found: Sequence[Asked], exact: bool) -> Finding:
    judged = [one for one in found if one.right is not None]
    wrong = [one for one in judged if not one.right]
    how = "" if exact else " (counted by the server's usage: it has no /tokenize)"
    near = (
        "" if prompt.tokens in context.plan.gates.long_context.context_lengths else ", the closest that padding gives"
    )
    where = f"{prompt.tokens} prompt tokens{near}{how}"
    location = context.plan.where("gate_config.gate_4_long_context.context_lengths")
    if len(judged) < len(found) and not wrong:
        first = next(one for one in found if one.right is None)
        return Finding(
            check="context",
            verdict=Verdict.ERROR,
            message=f"at {where}: {len(found) - len(judged)} questions were not answered: {_said(first.answer)}",
            evidence=(answer_evidence("what came back", first.answer),),
            location=location,
        )
    if not wrong:
        return Finding(
            check="context",
            verdict=Verdict.PASS,
            message=f"at {where}: the facts at all {len(judged)} depths are found",
            measured=1.0,
            unit="recall",
            samples=len(judged),
        )
    depths = ", ".join(f"{one.depth:.0%}" for one in wrong)
    garbage = len(wrong) == len(judged) or any(one.degenerate for one in wrong)
    symptom, what = ("garbage", "the answers are garbage") if garbage else ("needle_lost", "facts are lost")
    return Finding(
        check="context",
        verdict=Verdict.FAIL,
        symptom=symptom,
        message=f"at {where}: {what} at depths {depths}",
        measured=1 - len(wrong) / len(judged),
        threshold=1.0,
        unit="recall",
        samples=len(judged),
        evidence=(answer_evidence(f"depth {wrong[0].depth:.0%}", wrong[0].answer), _map(found)),
        location=location,
        remedy=(
            "Compare with the release before at this length. Suspect the KV cache (dtype, block size), sliding-window "
            "or sparse attention, rope scaling, or chunked prefill; lower --max-model-len below the length that works."
        ),
    )


def _edges(context: Context, asked: Sequence[Asked]) -> Finding:
    """Whether a length works, and its neighbours do not, or the other way round: an off-by-one at an edge."""
    works = {one.length: one.right for one in asked if one.right is not None and one.depth == DEPTHS[_MIDDLE]}
    odd = [
        length
        for length in works
        if {length - 1, length + 1} <= set(works) and works[length] != works[length - 1] == works[length + 1]
    ]
    if odd:
        state = "fails although its neighbours work" if not works[odd[0]] else "works although its neighbours fail"
        return Finding(
            check="context_edges",
            verdict=Verdict.FAIL,
            symptom="edge",
            message=f"a prompt of exactly {odd[0]} tokens {state}",
            evidence=(_map(asked),),
            location=context.plan.where("gate_config.gate_4_long_context.context_lengths"),
            remedy="An off-by-one at a chunk, block, window or CUDA-graph edge: report it with this length.",
        )
    return Finding(
        check="context_edges",
        verdict=Verdict.PASS,
        message=f"one token more or less changes nothing at {len(works)} lengths",
        samples=len(asked),
    )


def _too_long(context: Context, length: int, window: int) -> Finding:
    return Finding(
        check="context",
        verdict=Verdict.INCONCLUSIVE,
        message=f"{length} prompt tokens can't be asked: the server takes {window} tokens, prompt and answer together",
        measured=float(window),
        threshold=float(length + ROOM),
        unit="tokens",
        location=context.plan.where("gate_config.gate_4_long_context.context_lengths"),
        remedy=f"Serve with --max-model-len {length + ROOM} or more, or take {length} out of context_lengths.",
    )


def _map(found: Sequence[Asked]) -> Evidence:
    rows = [f"{one.length:>7} tokens, depth {one.depth:>4.0%}: {_mark(one)}" for one in found]
    return Evidence(EvidenceKind.NOTE, "length and depth", "\n".join(rows))


def _mark(one: Asked) -> str:
    return "not judged" if one.right is None else "found" if one.right else "garbage" if one.degenerate else "lost"


def _said(answer: Answer | CouldNotJudge) -> str:
    return f"HTTP {answer.status}, {answer.message}" if isinstance(answer, Refusal) else str(answer)
