"""How far two servers' next-token distributions lie apart, position by position.

Both sides list their k most likely tokens of the same positions. `a` is the reference, `b` the candidate; p and l are
probabilities and logprobs (nats). Nothing is known of unlisted tokens but that they are no likelier than the listed
ones, so each measure says how it treats them.

Sources: total variation and KL divergence, Cover & Thomas, Elements of Information Theory; lumping the tail can only
lower both (data-processing inequality), so they are lower bounds. The weighted logprob difference with left-censored
tokens follows the idea of log probability tracking (arXiv 2512.03816).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllm_gate.judge.positions import NO_TOKEN, Floats, Positions

TELLING_GAP = 0.25
"""Nats between the reference's two best tokens above which healthy noise does not swap them: two bfloat16 steps."""
_CHUNK = 4_000
_SMALLEST_TAIL = 1e-9
_LEAST = -100.0

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """One value a position, shape (n,) each.

    `total_variation` (0 to 1), `kl` and `weighted_logprob` (nats), `overlap` (0 to 1: share of the top k in common),
    `gap` (nats: the reference's lead of its best token over its second), `flipped` (the best tokens differ),
    `nll_change` (nats: how much less likely the candidate finds the token that stands there).
    """

    total_variation: Floats
    kl: Floats
    weighted_logprob: Floats
    overlap: Floats
    gap: Floats
    flipped: Bools
    nll_change: Floats

    def __len__(self) -> int:
        return int(self.gap.size)

    def metric(self, name: str) -> Floats:
        """The gated measure by its name in settings.json."""
        values: dict[str, Floats] = {
            "total_variation": self.total_variation,
            "kl": self.kl,
            "weighted_logprob": self.weighted_logprob,
        }
        return values[name]

    def flips(self, least_gap: float = TELLING_GAP) -> int:
        """Positions whose best token changed although the reference led by more than `least_gap` nats."""
        return int((self.flipped & (self.gap > least_gap)).sum())

    def agreement(self) -> float:
        """Share of the positions with a telling gap whose best token is the same; 1 when there is none."""
        telling = self.gap > TELLING_GAP
        return float(1 - self.flipped[telling].mean()) if telling.any() else 1.0


def drift(a: Positions, b: Positions) -> Drift:
    """Compare the same n positions of two servers.

    Raises ValueError when lengths or target tokens differ: those are different texts, not drifted ones.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} positions can't be compared with {len(b)}")
    if not np.array_equal(a.target, b.target):
        raise ValueError("the two sides scored different tokens")
    parts = [_chunk(a, b, slice(at, at + _CHUNK)) for at in range(0, len(a), _CHUNK)] or [_chunk(a, b, slice(0, 0))]
    total_variation, kl, weighted, overlap = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Drift(
        total_variation=total_variation,
        kl=kl,
        weighted_logprob=weighted,
        overlap=overlap,
        gap=_gap(a),
        flipped=a.ids[:, 0] != b.ids[:, 0],
        nll_change=a.target_logprob - b.target_logprob,
    )


def _chunk(a: Positions, b: Positions, rows: slice) -> tuple[Floats, Floats, Floats, Floats]:
    """(total variation, KL, weighted logprob difference, overlap) of some rows."""
    ids_a, ids_b = a.ids[rows], b.ids[rows]
    la, lb = a.logprobs[rows], b.logprobs[rows]
    same = (ids_a[:, :, None] == ids_b[:, None, :]) & (ids_a[:, :, None] != NO_TOKEN)
    in_both, where = same.any(axis=2), same.argmax(axis=2)
    lb_of_a = np.take_along_axis(lb, where, axis=1)
    pa, pb = np.where(in_both, np.exp(la), 0.0), np.where(in_both, np.exp(lb_of_a), 0.0)
    rest_a, rest_b = 1 - pa.sum(axis=1), 1 - pb.sum(axis=1)
    total_variation = 0.5 * (np.abs(pa - pb).sum(axis=1) + np.abs(rest_a - rest_b))
    listed = (ids_a != NO_TOKEN).sum(axis=1)
    overlap = in_both.sum(axis=1) / np.maximum(np.maximum(listed, (ids_b != NO_TOKEN).sum(axis=1)), 1)
    kl = _kl(pa, la, lb_of_a, in_both, rest_a, rest_b)
    return total_variation, kl, _weighted(ids_a, ids_b, la, lb, lb_of_a, in_both, same.any(axis=1)), overlap


def _kl(pa: Floats, la: Floats, lb: Floats, in_both: Bools, rest_a: Floats, rest_b: Floats) -> Floats:
    """Sum over common tokens of pa (la - lb), plus ra ln(ra / rb) for the rest of each side.

    A logprob below that of any real token (minus infinity, say) counts as the least one, so that one token which a
    side rules out does not make the whole divergence infinite.
    """
    terms = pa * np.where(in_both, np.maximum(la, _LEAST) - np.maximum(lb, _LEAST), 0.0)
    ra, rb = np.maximum(rest_a, _SMALLEST_TAIL), np.maximum(rest_b, _SMALLEST_TAIL)
    divergence: Floats = np.maximum(terms.sum(axis=1) + ra * np.log(ra / rb), 0.0)
    return divergence


def _weighted(
    ids_a: NDArray[np.int32],
    ids_b: NDArray[np.int32],
    la: Floats,
    lb: Floats,
    lb_of_a: Floats,
    in_both: Bools,
    b_in_both: Bools,
) -> Floats:
    """Sum of w |la - lb| over sum of w, w = (pa + pb) / 2, over the union of both lists.

    A token that one side does not list is taken at that side's least listed logprob: the difference is then a lower
    bound.
    """
    floor_a, floor_b = _floor(la), _floor(lb)
    listed_a, listed_b = ids_a != NO_TOKEN, ids_b != NO_TOKEN
    b_side = np.where(in_both, lb_of_a, np.minimum(floor_b, la))
    only_b = listed_b & ~b_in_both
    a_side = np.minimum(floor_a, lb)
    numerator = _terms(la, b_side, listed_a)[0] + _terms(a_side, lb, only_b)[0]
    weight = _terms(la, b_side, listed_a)[1] + _terms(a_side, lb, only_b)[1]
    result: Floats = np.divide(numerator, weight, out=np.zeros_like(numerator), where=weight > 0)
    return result


def _terms(la: Floats, lb: Floats, counted: Bools) -> tuple[Floats, Floats]:
    """Weighted differences and weights, summed over each row; a token at -inf on both sides weighs nothing."""
    counted = counted & np.isfinite(la) & np.isfinite(lb)
    la, lb = np.where(counted, la, 0.0), np.where(counted, lb, 0.0)
    weight = np.where(counted, (np.exp(la) + np.exp(lb)) / 2, 0.0)
    return (weight * np.abs(la - lb)).sum(axis=1), weight.sum(axis=1)


def _floor(logprobs: Floats) -> Floats:
    """Each row's least finite logprob, shape (n, 1)."""
    least: Floats = np.where(np.isfinite(logprobs), logprobs, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    return least


def _gap(a: Positions) -> Floats:
    """The lead of the best token over the second; infinite where only one is listed."""
    if a.k < 2:
        return np.full(len(a), np.inf)
    gap: Floats = a.logprobs[:, 0] - a.logprobs[:, 1]
    return gap
