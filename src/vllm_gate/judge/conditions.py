"""Under which conditions answers are wrong: always, only under load, or only when streamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ONLY_UNDER_LOAD = "only_under_load"
ONLY_STREAMING = "only_streaming"

REMEDIES = {
    ONLY_UNDER_LOAD: (
        "One request at a time is answered rightly, so the fault needs a batch. Serve with --no-async-scheduling, with "
        "--no-enable-chunked-prefill, with --enforce-eager and without speculative decoding, one at a time, and ask "
        "again at the same concurrency."
    ),
    ONLY_STREAMING: (
        "The same request is answered rightly without streaming, so the model is right and its delivery is not. Check "
        "the reasoning and tool parsers (they stream differently), --stream-interval, and any proxy in between that "
        "cuts or buffers server-sent events."
    ),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """How many of the answers under one condition were right."""

    concurrency: int
    streamed: bool
    right: int
    asked: int

    def __str__(self) -> str:
        kind = "streamed" if self.streamed else "not streamed"
        return f"concurrency {self.concurrency:>3}, {kind:<12}: {self.right} of {self.asked} right"


def condition(cells: Sequence[Cell]) -> str:
    """For cells with a wrong answer: `only_under_load`, `only_streaming`, or "" when one was wrong without either.

    Both need the opposite condition to have been asked and always right. A fault that needs load is named so even if
    only streamed answers happened to hit it: streaming alone was then asked too, and was right.
    """
    lightest = min((cell.concurrency for cell in cells), default=0)
    alone = [cell for cell in cells if cell.concurrency == lightest]
    plain = [cell for cell in cells if not cell.streamed]
    if _all_right(alone):
        return ONLY_UNDER_LOAD
    if _all_right(plain):
        return ONLY_STREAMING
    return ""


def _all_right(cells: Sequence[Cell]) -> bool:
    return sum(cell.asked for cell in cells) > 0 and all(cell.right == cell.asked for cell in cells)
