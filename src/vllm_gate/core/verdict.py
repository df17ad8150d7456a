"""The five verdicts and how they add up."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What a check, a gate or a run concluded."""

    PASS = "pass"
    FAIL = "fail"
    """Measured, and bad."""
    ERROR = "error"
    """Could not ask: the service or the infrastructure failed."""
    INCONCLUSIVE = "inconclusive"
    """Asked, but there was not enough data or capability to tell."""
    SKIPPED = "skipped"
    """Not asked, on purpose. Counts for nothing."""

    @property
    def blocks(self) -> bool:
        """Whether this verdict, alone, keeps a release from users under the default `--fail-on`."""
        return self in (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE)


_WORST_FIRST = (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASS)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The overall verdict: fail > error > inconclusive > pass.

    Skipped verdicts count for nothing; when nothing else is left, nothing was proven: ERROR.
    """
    seen = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in seen), Verdict.ERROR)
