"""NaN and infinity, in every form in which they come through HTTP.

JSON has no NaN, so a server that computes it shows something else: an error on requests for logprobs alone, a
sentinel, a distribution that is none, one token everywhere. There is no tolerance for any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vllm_gate.judge.positions import Positions

SENTINEL = -9998.0
"""vLLM writes -9999.0 for minus infinity; no real logprob comes near it."""
_ENOUGH_LISTED = 5
_ENOUGH_POSITIONS = 32


@dataclass(frozen=True, slots=True)
class Corruption:
    """One form of it: a stable word and a sentence that quotes the proof."""

    kind: str
    sentence: str


def corruption(positions: Positions) -> Corruption | None:
    """The first sign of broken numbers in one text's positions; None in a healthy one."""
    with np.errstate(invalid="ignore", over="ignore"):
        chosen, best = positions.target_logprob, positions.logprobs[:, 0] if positions.k else positions.target_logprob
        if np.isnan(chosen).any() or np.isnan(positions.logprobs).any():
            return Corruption(
                "nan", _at("a logprob is NaN", np.isnan(chosen) | np.isnan(positions.logprobs).any(axis=1))
            )
        sentinel = (chosen <= SENTINEL) | ((best <= SENTINEL) & (positions.ids[:, 0] >= 0))
        if sentinel.any():
            return Corruption("sentinel", _at("a chosen or best token has the logprob of minus infinity", sentinel))
        mass = np.exp(np.where(np.isfinite(positions.logprobs), positions.logprobs, -np.inf)).sum(axis=1)
        if (mass > 1.01).any():
            worst = int(mass.argmax())
            return Corruption("broken_softmax", f"probabilities add up to {mass[worst]:.3g} at position {worst}")
        return _dead(positions)


def _dead(positions: Positions) -> Corruption | None:
    """Rows in which every listed token is equally likely carry no information."""
    listed = (positions.ids >= 0).sum(axis=1)
    finite = np.where(positions.ids >= 0, positions.logprobs, np.nan)
    spread = np.nanmax(finite, axis=1, initial=-np.inf) - np.nanmin(finite, axis=1, initial=np.inf)
    dead = (listed >= _ENOUGH_LISTED) & (np.abs(spread) < 1e-6)
    return Corruption("dead_logits", _at("all listed tokens are equally likely", dead)) if dead.any() else None


def one_token_everywhere(texts: Sequence[Positions]) -> Corruption | None:
    """Whether the same token is best at every position of different texts, as argmax over NaN gives."""
    best = [part.ids[:, 0] for part in texts if len(part) and part.k]
    if len(best) < 2:
        return None
    every = np.concatenate(best)
    if every.size >= _ENOUGH_POSITIONS and (every == every[0]).all():
        return Corruption("one_token", f"token {int(every[0])} is the best one at all {every.size} positions")
    return None


def _at(sentence: str, where: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
    return f"{sentence} at position {int(where.argmax())} ({int(where.sum())} of {where.size} positions)"
