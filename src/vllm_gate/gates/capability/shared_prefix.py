"""Several requests with one prefix at once: each must say what it says alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.asking import ask_all
from vllm_gate.gates.capability.distributions import moved
from vllm_gate.gates.capability.prefix_cache import MOST_MOVED, OVER_NOISE, ask_cold, refused, shared_text
from vllm_gate.gates.interface import Context
from vllm_gate.server.reply import Answer, Refusal, Reply

AT_ONCE = 4
"""Enough that some compute the prefix while others read it; few enough not to disturb a server in use."""
_TOKENS = 1200
_REMEDY = (
    "Do not release: requests that share a prefix spoil each other. Serve with --no-enable-prefix-caching, then with "
    "--enforce-eager, then with --max-num-seqs 1, to see which of them is at fault."
)


@dataclass(frozen=True, slots=True)
class _Round:
    """Each request alone, alone once more, and among the others."""

    alone: Sequence[Reply]
    noise: float | None
    together: Sequence[Reply]

    @property
    def changes(self) -> list[float | None]:
        """How far each answer among the others lies from the one alone."""
        return [moved(one, other) for one, other in zip(self.alone, self.together, strict=True)]

    @property
    def limit(self) -> float:
        """What noise may explain."""
        return max(MOST_MOVED, OVER_NOISE * (self.noise or 0.0))

    @property
    def changed(self) -> list[int]:
        """Which answers changed by more than noise, or in a way that can't be measured."""
        return [n for n, change in enumerate(self.changes) if change is None or change > self.limit]


def ask_shared_prefix(context: Context) -> Iterator[Finding]:
    """Alone first, each cold; then all at once with one salt. A change counts once a second prefix shows it too."""
    if context.plan.services["under_test"].api == "anthropic":
        message = "not asked: the Anthropic messages API has no cache salt and no logprobs"
        yield Finding(check="shared_prefix", verdict=Verdict.SKIPPED, message=message)
        return
    rounds: list[_Round] = []
    while not rounds or (rounds[-1].changed and len(rounds) < 2):
        asked = _ask(context)
        if not isinstance(asked, _Round):
            yield _unanswered(context, asked)
            return
        rounds.append(asked)
    yield _concluded(context, rounds)


def _ask(context: Context) -> _Round | Answer | CouldNotJudge:
    mark = f"{context.rng.integers(2**40):010x}"
    prompts = [f"{shared_text(mark, _TOKENS)} Part {number}: item" for number in range(AT_ONCE)]
    alone: list[Reply] = []
    for number, prompt in enumerate([*prompts, prompts[0]]):
        context.progress("one prefix, alone", number, len(prompts) + 1, "requests")
        answer = ask_cold(context, prompt, f"{mark}-alone-{number}")
        if not isinstance(answer, Reply):
            return answer
        alone.append(answer)
    together: dict[int, Answer | CouldNotJudge] = {}

    def seen(index: int, answer: Answer | CouldNotJudge) -> bool:
        together[index] = answer
        context.progress("one prefix, at once", len(together), len(prompts), "requests")
        return False

    ask_all([partial(ask_cold, context, prompt, f"{mark}-shared") for prompt in prompts], AT_ONCE, seen)
    replies: list[Reply] = []
    for index in range(AT_ONCE):
        reply = together[index]
        if not isinstance(reply, Reply):
            return reply
        replies.append(reply)
    return _Round(alone[:AT_ONCE], moved(alone[0], alone[AT_ONCE]), replies)


def _concluded(context: Context, rounds: Sequence[_Round]) -> Finding:
    last = rounds[-1]
    known = [change for change in last.changes if change is not None]
    context.facts["shared_prefix"] = {"moved": last.changes, "noise": last.noise}
    location = context.plan.where("gate_config.gate_4_long_context.prefix_cache_check")
    if not last.changed:
        first = len(rounds[0].changed) if len(rounds) > 1 else 0
        return Finding(
            check="shared_prefix",
            verdict=Verdict.PASS,
            message=f"{AT_ONCE} requests with one prefix at once say what each says alone",
            warning=f"with a first prefix {first} of {AT_ONCE} differed, with a second none" if first else "",
            measured=max(known),
            threshold=last.limit,
            unit="total variation",
            samples=AT_ONCE,
        )
    blind = not known or last.noise is None
    return Finding(
        check="shared_prefix",
        verdict=Verdict.INCONCLUSIVE if blind else Verdict.FAIL,
        symptom="answers_vary" if blind else "shared_prefix_changes_answer",
        message=f"{len(last.changed)} of {AT_ONCE} requests with one prefix are answered differently at once than alone"
        + (", and without logprobs nothing tells whether that is noise" if blind else ""),
        measured=max(known) if known else None,
        threshold=last.limit,
        unit="total variation",
        samples=AT_ONCE,
        evidence=(_evidence(last),),
        location=location,
        remedy="Ask vLLM itself, which gives logprobs, instead of a gateway." if blind else _REMEDY,
    )


def _unanswered(context: Context, answer: Answer | CouldNotJudge) -> Finding:
    if isinstance(answer, Refusal):
        return refused(context, answer, "shared_prefix")
    return Finding(check="shared_prefix", verdict=Verdict.ERROR, message=f"a completion is not answered: {answer}")


def _evidence(last: _Round) -> Evidence:
    lines = [
        f"{number}: moved by {'?' if change is None else f'{change:.3f}'}; "
        f"alone {one.text[:40]!r}, at once {other.text[:40]!r}"
        for number, (one, other, change) in enumerate(zip(last.alone, last.together, last.changes, strict=True))
    ]
    return Evidence(EvidenceKind.NOTE, "alone and at once", "\n".join(lines))
