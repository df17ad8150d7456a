"""Whether a difference between two servers begins at some position of the context: a step, and not a slope or noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LIMIT = 0.05
"""Mean total variation from which on a step counts: what healthy kernels differ by stays well below."""
OVER_BEFORE = 5.0
"""How often what lies before it a step must be."""
LEAST_BEYOND = 3
"""Fewest texts beyond a step; one odd text is none."""


@dataclass(frozen=True, slots=True)
class Step:
    """All is close up to `last_close`, and not from `first_far` on. Means are over texts."""

    last_close: int
    first_far: int
    before: float
    beyond: float
    texts: int
    """Texts beyond the step."""


def find_step(places: Sequence[int], moved: Sequence[float], limit: float = LIMIT) -> Step | None:
    """The clearest step of `moved` (one mean total variation a text) over `places` (tokens before it).

    Beyond it the mean is above `limit` and several times that before it, and most texts are: a single one can't carry
    the mean. None without a step, or where even the shortest places differ.
    """
    at, values = np.asarray(places), np.asarray(moved)
    found: list[Step] = []
    for place in np.unique(at)[1:]:
        before, beyond = values[at < place], values[at >= place]
        mean, floor = float(beyond.mean()), float(before.mean())
        most = float((beyond > limit).mean()) > 0.5
        if beyond.size >= LEAST_BEYOND and most and mean > limit and mean > OVER_BEFORE * floor and floor <= limit:
            found.append(Step(int(at[at < place].max()), int(place), floor, mean, int(beyond.size)))
    return max(found, key=lambda step: step.beyond - step.before, default=None)
