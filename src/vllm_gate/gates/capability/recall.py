"""Whether a length is to be blamed on the release: a lost fact is asked for again, and of the baseline as well.

With a baseline the question is whether the release finds less than that one does. Without one, every fact is to be
found, or the share that `needle_recall_threshold` names; a fact counts as lost once it is lost in most of the further
texts too, so that a single slip of a healthy model blocks nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.capability.long_prompt import DEPTHS, LongPrompt
from vllm_gate.gates.capability.needles import Asked, Asker
from vllm_gate.gates.capability.paired import Pair, ask_both

AGAIN = 3
"""Further texts that decide on a lost fact where there is no baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """What came of one length. `found` is every question to the release; `why` says how its losses were judged."""

    verdict: Verdict
    share: float
    threshold: float
    why: str
    found: Sequence[Asked]
    theirs: Sequence[Asked] = ()
    blamed: Sequence[Asked] = ()
    """Wrong answers that the verdict rests on."""


Build = Callable[[], LongPrompt]


def judge_alone(found: Sequence[Asked], ours: Asker, fresh: Build, threshold: float) -> Recall:
    """Without a baseline: lost facts are asked for in further texts, and the majority decides."""
    every = list(found)
    lost_again: Counter[int] = Counter()
    found_again: Counter[int] = Counter()
    doubtful = [one.depth for one in found if one.right is False]
    for _ in range(AGAIN):
        open_depths = [d for d in doubtful if max(lost_again[d], found_again[d]) <= AGAIN // 2]
        if not open_depths:
            break
        for one in ours.ask(fresh(), open_depths):
            every.append(one)
            lost_again[one.depth] += one.right is False
            found_again[one.depth] += one.right is True
    lost = [depth for depth in doubtful if lost_again[depth] >= found_again[depth]]
    share = 1 - len(lost) / len(found)
    failed = share < threshold - 1e-9
    why = f"at depths {named(lost)}, in further texts too" if lost else f"at depths {named(doubtful)}, in one text only"
    return Recall(
        verdict=Verdict.FAIL if failed else Verdict.PASS,
        share=share,
        threshold=threshold,
        why=why,
        found=every,
        blamed=[one for one in every if one.right is False and one.depth in lost],
    )


def judge_against(
    found: Sequence[Asked], ours: Asker, theirs: Asker, prompt: LongPrompt, fresh: Build
) -> Recall | None:
    """With a baseline: does the release lose what that one finds? None where the baseline can't answer.

    The first text only raises the question; it is answered on further ones, by a sign test over the facts that just
    one side found.
    """
    share = 1 - sum(one.right is False for one in found) / len(found)
    before = theirs.ask(prompt, [one.depth for one in found if one.right is False])
    if any(one.right is None for one in before):
        return None
    ours_alone = [one.depth for one in before if one.right]
    if not ours_alone:
        return Recall(
            verdict=Verdict.PASS,
            share=share,
            threshold=0.0,
            why=f"at depths {named(one.depth for one in before)}, and the baseline loses the same",
            found=found,
            theirs=before,
        )
    every, every_before = list(found), list(before)

    def ask() -> list[Pair]:
        text = fresh()
        pairs = list(zip(ours.ask(text, ours_alone), theirs.ask(text, ours_alone), strict=True))
        every.extend(one for one, _ in pairs)
        every_before.extend(other for _, other in pairs)
        return [(one.right, other.right) for one, other in pairs]

    compared = ask_both(ask)
    return Recall(
        verdict=compared.verdict,
        share=share,
        threshold=1.0,
        why=f"at depths {named(ours_alone)}; {compared}",
        found=every,
        theirs=every_before,
        blamed=[one for one in every if one.right is False and one.depth in ours_alone],
    )


def named(depths: Iterable[int]) -> str:
    """Depths as they are told: 0%, 25%."""
    return ", ".join(f"{DEPTHS[depth]:.0%}" for depth in sorted(depths))
