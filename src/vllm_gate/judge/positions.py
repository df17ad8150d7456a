"""Top-k distributions of many positions, packed into arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NO_TOKEN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """n positions with up to k listed tokens each.

    `ids` (n, k) int32, `NO_TOKEN` where fewer are listed; `logprobs` (n, k) in nats, descending, -inf there.
    `target` (n,) is the token that stands at the position, `target_logprob` (n,) its logprob (NaN where not said).
    """

    ids: NDArray[np.int32]
    logprobs: Floats
    target: NDArray[np.int32]
    target_logprob: Floats

    def __post_init__(self) -> None:
        n, k = self.ids.shape
        if self.logprobs.shape != (n, k) or self.target.shape != (n,) or self.target_logprob.shape != (n,):
            raise ValueError(f"shapes disagree: {self.ids.shape}, {self.logprobs.shape}, {self.target.shape}")

    def __len__(self) -> int:
        return int(self.target.size)

    @property
    def k(self) -> int:
        """The most tokens listed at a position."""
        return int(self.ids.shape[1])

    def head(self, n: int) -> Positions:
        """The first n positions."""
        return Positions(self.ids[:n], self.logprobs[:n], self.target[:n], self.target_logprob[:n])


def pack(rows: Sequence[tuple[int, float, Iterable[tuple[int, float]]]], k: int) -> Positions:
    """Positions from (token, logprob, listed tokens with logprobs) each; the k most likely listed ones are kept.

    A chosen token listed beyond the top k is left out, so that it can't pass for the k-th: it would set the floor
    below which unlisted tokens are taken to lie. NaN counts as least likely.
    """
    n = len(rows)
    ids = np.full((n, k), NO_TOKEN, dtype=np.int32)
    logprobs = np.full((n, k), -np.inf)
    for row, (_, _, listed) in enumerate(rows):
        best = sorted(listed, key=lambda pair: (-pair[1] if pair[1] == pair[1] else np.inf, pair[0]))[:k]
        for column, (token, logprob) in enumerate(best):
            ids[row, column], logprobs[row, column] = token, logprob
    target = np.array([token for token, _, _ in rows], dtype=np.int32)
    return Positions(ids, logprobs, target, np.array([logprob for _, logprob, _ in rows], dtype=np.float64))


def join(parts: Sequence[Positions]) -> Positions:
    """Several runs of positions as one, padded to the largest k. Raises ValueError for none."""
    if not parts:
        raise ValueError("no positions to join")
    k = max(part.k for part in parts)
    return Positions(
        np.concatenate([_padded(part.ids, k, NO_TOKEN) for part in parts]),
        np.concatenate([_padded(part.logprobs, k, -np.inf) for part in parts]),
        np.concatenate([part.target for part in parts]),
        np.concatenate([part.target_logprob for part in parts]),
    )


def _padded(values: NDArray[np.generic], k: int, filler: float) -> NDArray[np.generic]:
    return np.pad(values, ((0, 0), (0, k - values.shape[1])), constant_values=filler)
