"""What one server said about one text: the unit that two servers are compared by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vllm_gate.judge.positions import Positions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """One text by its token ids.

    `token_ids` is the prompt and, from index `start` on, the reference's greedy continuation. `forced` holds the
    positions of the continuation as the server scores them when it is given all of them (prefill), `decoded` the ones
    that it generated itself after the prompt, token by token. None where the server could not say.
    """

    prompt_id: str
    token_ids: tuple[int, ...]
    start: int
    forced: Positions | None = None
    decoded: Positions | None = None

    @property
    def continuation(self) -> tuple[int, ...]:
        """The reference's own words."""
        return self.token_ids[self.start :]


def shared_decoding(reference: Trace, candidate: Trace) -> tuple[Positions, Positions, int | None] | None:
    """The positions that both generated after the same tokens, and where they first said something else.

    Up to and including the first differing token both stand after identical prefixes, so their distributions can be
    compared; after it they can't. The third value is that index, None when all is the same.
    """
    a, b = reference.decoded, candidate.decoded
    if a is None or b is None or not len(a) or not len(b):
        return None
    differs = first_difference(a.target.tolist(), b.target.tolist())
    n = min(len(a), len(b)) if differs is None else differs + 1
    ours = b.head(n)
    # The differing token itself stands for nothing here: only the distribution at its place does.
    return a.head(n), Positions(ours.ids, ours.logprobs, a.target[:n], ours.target_logprob), differs


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first index at which two token sequences differ within their common length; None when they do not."""
    return next((index for index, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), None)
