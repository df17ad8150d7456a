"""What became of one request: all that is kept of it, in the journal and for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from vllm_gate.judge.canary import Counts
from vllm_gate.judge.task_success import is_degenerate

WORSE, SAME, BETTER, EXCLUDED = "worse", "same", "better", "excluded"
UNANSWERED = "unanswered"
"""How the signal of a side that gave no answer begins; why stands behind a colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One server's part. `failed` names the signals of failure; empty: it did its task."""

    failed: tuple[str, ...] = ()
    finish_reason: str = ""
    tokens: int = 0
    """Of prompt and answer, by the server's own account; 0 for an answer that was recorded."""
    seconds: float = 0.0
    said: str = ""
    """The answer's text as far as it may be kept; "" where there is nothing to show."""

    @property
    def answered(self) -> bool:
        return not any(signal.startswith(UNANSWERED) for signal in self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A pair. `number` is its place in the sample."""

    number: int
    key: str
    candidate: Side
    baseline: Side
    asked: str = ""
    """The last message as far as it may be kept; "" where there is nothing to show."""
    line: int = 0
    """Of the traffic log."""

    @property
    def result(self) -> str:
        """`worse`, `same`, `better`, or `excluded`: without the baseline's answer there is nothing to compare with."""
        if not self.baseline.answered:
            return EXCLUDED
        done, expected = not self.candidate.failed, not self.baseline.failed
        return SAME if done == expected else BETTER if done else WORSE

    def counts(self) -> Counts:
        """Its contribution to the evidence."""
        result, answered = self.result, self.candidate.answered
        if result == EXCLUDED:
            return Counts(excluded=1, excluded_answered=int(answered))
        ours, theirs = is_degenerate(self.candidate.failed), is_degenerate(self.baseline.failed)
        return Counts(
            worse=int(result == WORSE),
            same=int(result == SAME),
            better=int(result == BETTER),
            degenerate=int(ours and not theirs),
            recovered=int(theirs and not ours),
            unanswered=int(not answered),
        )


def to_row(outcome: Outcome) -> dict[str, Any]:
    """The outcome for a journal, without what is empty."""
    row = asdict(outcome)
    for side in ("candidate", "baseline"):
        row[side] = {key: value for key, value in row[side].items() if value}
    return {key: value for key, value in row.items() if value or key == "number"}


def from_row(row: Mapping[str, Any]) -> Outcome:
    """An outcome from a journal's row. Raises ValueError for anything else."""
    try:
        sides = {
            side: Side(**{**row.get(side, {}), "failed": tuple(row.get(side, {}).get("failed", ()))})
            for side in ("candidate", "baseline")
        }
        outcome = Outcome(**{**row, **sides})
        if not isinstance(outcome.number, int) or outcome.number < 0:
            raise ValueError("its number is none")
    except (TypeError, AttributeError) as problem:
        raise ValueError(f"no outcome of a canary: {problem}") from problem
    return outcome
