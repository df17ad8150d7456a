"""Asking the release and its baseline the same further questions until it is clear whether the release is worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vllm_gate.core.verdict import Verdict
from vllm_gate.judge.signs import ALPHA, can_still_tell, sign_test

MOST_PAIRS = 12
"""Most questions to both sides about what the release alone got wrong."""
_LEANING = 0.1

Pair = tuple[bool | None, bool | None]
"""Whether the release's answer and the baseline's are right; None where it can't be judged."""


@dataclass(frozen=True, slots=True)
class Paired:
    """How the further questions went."""

    worse: int
    better: int
    asked: int

    @property
    def verdict(self) -> Verdict:
        """Clearly worse, not worse, or neither."""
        p = sign_test(self.worse, self.better)
        return Verdict.FAIL if p <= ALPHA else Verdict.INCONCLUSIVE if p <= _LEANING else Verdict.PASS

    def __str__(self) -> str:
        return (
            f"of {self.asked} further questions to both, the release alone got {self.worse} wrong and the baseline "
            f"alone {self.better} (sign test: p = {sign_test(self.worse, self.better):.2g})"
        )


def ask_both(ask: Callable[[], Sequence[Pair]]) -> Paired:
    """Ask on until it is decided, or can't be any more; `ask` asks both sides the next few questions.

    What raised the suspicion must not be among them: it was picked because the release got it wrong.
    """
    state = Paired(0, 0, 0)
    while (
        state.asked < MOST_PAIRS
        and sign_test(state.worse, state.better) > ALPHA
        and can_still_tell(state.worse, state.better, MOST_PAIRS - state.asked)
    ):
        pairs = ask()
        known = [(bool(ours), bool(theirs)) for ours, theirs in pairs if ours is not None and theirs is not None]
        state = Paired(
            state.worse + sum(theirs and not ours for ours, theirs in known),
            state.better + sum(ours and not theirs for ours, theirs in known),
            state.asked + max(len(pairs), 1),
        )
    return state
