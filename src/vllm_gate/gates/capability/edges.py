"""One token more or less: an off-by-one at a chunk, block, window or CUDA-graph edge.

The three lengths hold the same text. Where they differ, further texts must show the same difference each time: a model
that finds a fact only now and then would else be taken for an edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.capability.long_prompt import MIDDLE, Counter, LongPrompt, beside, build
from vllm_gate.gates.capability.needles import ROOM, Asked, Asker
from vllm_gate.gates.interface import Context

_TEXTS = 3
"""Further texts in which a difference must show again."""


@dataclass(slots=True)
class Edges:
    """Every length and its neighbours, as they come."""

    context: Context
    window: int | None
    asked: list[Asked] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    by_chance: list[int] = field(default_factory=list)

    def ask(self, prompt: LongPrompt, found: Sequence[Asked], ours: Asker, count: Counter) -> None:
        """The neighbours of one prompt, whose own answers are `found`."""
        works = self._around(prompt, found, ours, count)
        if len(set(works.values())) < 2:
            return
        for _ in range(_TEXTS):
            text = build(prompt.tokens, count, self.context.rng)
            if self._around(text, ours.ask(text, [MIDDLE]), ours, count) != works:
                self.by_chance.append(prompt.tokens)
                return
        failing, working = ([length for length, right in works.items() if right is state] for state in (False, True))
        self.odd.append(
            f"prompts of exactly {_listed(failing)} tokens fail although {_listed(working)} work, in {_TEXTS + 1} texts"
        )

    def _around(self, prompt: LongPrompt, found: Sequence[Asked], ours: Asker, count: Counter) -> Mapping[int, bool]:
        """By length, whether the fact in the middle was found."""
        every = [one for one in found if one.depth == MIDDLE]
        for step in (-1, 1):
            if self.window is None or prompt.tokens + step + ROOM + ours.room <= self.window:
                every += ours.ask(beside(prompt, step, count, self.context.rng), [MIDDLE])
        self.asked += every
        return {one.length: one.right for one in every if one.right is not None}

    def finding(self) -> Finding:
        """What a token more or less changes."""
        if self.odd:
            return Finding(
                check="context_edges",
                verdict=Verdict.FAIL,
                symptom="edge",
                message="; ".join(self.odd),
                evidence=(Evidence(EvidenceKind.NOTE, "length and depth", "\n".join(map(str, self.asked))),),
                location=self.context.plan.where("gate_config.gate_4_long_context.context_lengths"),
                remedy="An off-by-one at a chunk, block, window or CUDA-graph edge: report it with this length.",
            )
        by_chance = ", ".join(map(str, self.by_chance))
        return Finding(
            check="context_edges",
            verdict=Verdict.PASS,
            message=f"one token more or less changes nothing at {len({one.length for one in self.asked})} lengths",
            warning=f"around {by_chance} tokens an answer changed in one text and not in others" if by_chance else "",
            samples=len(self.asked),
        )


def _listed(lengths: Sequence[int]) -> str:
    return " and ".join(map(str, sorted(lengths)))
