"""The least total variation that two lists of likely tokens allow.

Putting all that is not listed by both into one bucket is exact for close distributions, and blind where the lists have
nothing in common: both buckets then hold everything. But an unlisted token is no likelier than the least listed one, so
what one side lists and the other does not has moved by at least the difference to that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vllm_gate.judge.drift import drift
from vllm_gate.judge.positions import NO_TOKEN, Floats, Positions


def least_total_variation(a: Positions, b: Positions) -> Floats:
    """A lower bound of the total variation at each of the same n positions, 0 to 1; at least that of `drift`.

    Total variation is the probability that left the tokens which became less likely, and as well that which came to
    those which became likelier: each is bounded from below, token by token.
    """
    left, came = _lost(a.ids, a.logprobs, b.ids, b.logprobs), _lost(b.ids, b.logprobs, a.ids, a.logprobs)
    least: Floats = np.maximum(drift(a, b).total_variation, np.maximum(left, came))
    return least


def _lost(ids: NDArray[np.int32], logprobs: Floats, other_ids: NDArray[np.int32], other: Floats) -> Floats:
    """Sum of (p - q)+ over the listed tokens, with q at most the other side's least listed one where it lists none."""
    listed = ids != NO_TOKEN
    same = (ids[:, :, None] == other_ids[:, None, :]) & listed[:, :, None]
    theirs = np.take_along_axis(other, same.argmax(axis=2), axis=1)
    floor = np.where(other_ids != NO_TOKEN, other, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    q = np.exp(np.where(same.any(axis=2), theirs, floor))
    lost: Floats = np.where(listed, np.maximum(np.exp(logprobs) - q, 0.0), 0.0).sum(axis=1)
    return lost
