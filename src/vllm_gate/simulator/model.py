"""A small language model in numpy, sharded like a tensor-parallel one, so that numeric faults are real.

    embeddings of the last tokens, and the pull of what comes next
      → some layers of: RMSNorm → row-parallel projection → all-reduce in bfloat16 → + residual
      → RMSNorm (FP32 weights; fused with the last all-reduce where TP > 1) → lm_head → logits

Summation order is what differs between healthy servers: each shard's partial sum is rounded to bfloat16 before the
all-reduce adds it, and larger batches split the sum further, as a split-K kernel does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.numerics import Floats, fp8_e4m3, fp32_bits_as_bf16, int8, to_bf16

HIDDEN = 256
LAYERS = 6
_CONTEXT = 3
"""Tokens that the n-gram part looks back."""
_MEMORY = 32
"""Earlier tokens, evenly spread over the whole context, that the long-range part looks at."""
_LOGIT_SCALE = 3.6
_GAIN = 3.0
_PULL = 3.2
_EPSILON = 1e-6
NO_TOKEN = -1

Ids = Sequence[int] | NDArray[np.int64]


class LanguageModel:
    """Weights by `seed`; `tp` shards; `faults` that touch numbers. Stateless after construction, so thread-safe."""

    def __init__(self, vocabulary: int, seed: int = 0, tp: int = 1, faults: Faults | None = None) -> None:
        rng = np.random.default_rng([seed, vocabulary])
        self.vocabulary = vocabulary
        self._tp = tp
        self._faults = faults or Faults(())
        self._embed = to_bf16(rng.standard_normal((_CONTEXT + 1, vocabulary, HIDDEN)).astype(np.float32))
        self._layers = [_layer_weights(rng) for _ in range(LAYERS)]
        self._norm = _norm_weights(rng)
        while not np.isnan(fp32_bits_as_bf16(self._norm)).any():  # as among the thousands of a real checkpoint
            self._norm = _norm_weights(rng)
        head = rng.standard_normal((HIDDEN, vocabulary)) * _LOGIT_SCALE / np.sqrt(HIDDEN)
        # Column-major, like the layers: BLAS then takes one row at a time without waking its threads.
        self._head = np.asfortranarray(to_bf16(head.astype(np.float32)))
        self._pull = self._head / np.linalg.norm(self._head, axis=0) * np.sqrt(HIDDEN)
        self._served_head = self._head
        if "int8_weights" in self._faults:
            self._served_head = int8(self._head)
            self._layers = [(norm, int8(projection)) for norm, projection in self._layers]
        self._parts = (_parts(tp, 1, self._faults), _parts(tp, 2, self._faults))
        self._salt = int(rng.integers(1, 2**31))

    def logits(
        self,
        ids: Ids,
        *,
        positions: slice = slice(None),
        intended: Sequence[int] = (),
        batch: int = 1,
        request: int = 0,
    ) -> Floats:
        """Next-token logits, shape (positions, vocabulary), after each of `positions` of `ids`.

        `intended` names, for the last positions, the token that the model means to say next (`NO_TOKEN` for none).
        `batch` is how many requests run at once; `request` seeds what differs from request to request.
        """
        tokens = np.asarray(ids, dtype=np.int64)
        at = np.arange(tokens.size)[positions]
        with np.errstate(all="ignore"):
            hidden = self._residual(tokens, at, intended)
            for norm, projection in self._layers:
                hidden = to_bf16(hidden + self._row_parallel(to_bf16(_rms_norm(hidden, norm)), projection, batch))
            normed = self._final_norm(hidden, request)
            logits: Floats = (to_bf16(normed) @ self._served_head).astype(np.float32)
        return self._damaged(logits, request)

    def _residual(self, tokens: NDArray[np.int64], at: NDArray[np.int64], intended: Sequence[int]) -> Floats:
        residual = np.zeros((at.size, HIDDEN), dtype=np.float32)
        for back in range(_CONTEXT):
            seen = at - back >= 0
            residual[seen] += self._embed[back, tokens[at[seen] - back]] * np.float32(0.6**back)
        residual += self._memory(tokens, at)
        nexts, strengths = self._bigram(tokens, at)
        if len(intended):
            wanted = np.asarray(intended, dtype=np.int64)
            said = np.flatnonzero(wanted != NO_TOKEN) + at.size - wanted.size
            nexts[said], strengths[said] = wanted[wanted != NO_TOKEN], 3.0
        if "garbage_beyond" in self._faults:
            far = at >= int(self._faults.value("garbage_beyond"))
            nexts[far] = (nexts[far] * 7919 + at[far]) % self.vocabulary
        residual += self._pull[:, nexts].T * (strengths[:, None] * np.float32(_PULL))
        return to_bf16(residual)

    def _memory(self, tokens: NDArray[np.int64], at: NDArray[np.int64]) -> Floats:
        """A faint trace of the whole context; where a KV cache in FP8 loses precision."""
        spread = (at[:, None] * np.arange(_MEMORY)[None, :]) // _MEMORY
        values = self._embed[_CONTEXT, tokens[spread]]
        if "fp8_kv_long" in self._faults:
            far = spread < at[:, None] - int(self._faults.value("fp8_kv_long"))
            values = np.where(far[..., None], fp8_e4m3(values * np.float32(3.3)) / np.float32(3.0), values)
        trace: Floats = values.mean(axis=1) * np.float32(1.5)
        return trace

    def _bigram(self, tokens: NDArray[np.int64], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], Floats]:
        """What usually follows, and how strongly: from certain to hardly at all, by a hash of the last tokens."""
        mixed = np.full(at.size, self._salt, dtype=np.uint64)
        for back in range(_CONTEXT):
            token = np.where(at - back >= 0, tokens[np.maximum(at - back, 0)], 0).astype(np.uint64)
            mixed = (mixed ^ (token + np.uint64(0x9E3779B9))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
        nexts = (mixed % np.uint64(self.vocabulary)).astype(np.int64)
        strength: Floats = ((mixed >> np.uint64(40)) % np.uint64(1000)).astype(np.float32) * np.float32(0.001)
        return nexts, strength

    def _row_parallel(self, values: Floats, projection: Floats, batch: int) -> Floats:
        """Each rank holds some of the projection's rows and gives a partial sum of the whole output."""
        total = np.zeros_like(values)
        for rank, (rows, held) in enumerate(self._parts[batch > 2]):
            if rank == len(self._parts[batch > 2]) - 1 > 0 and "one_rank_dead" in self._faults:
                continue
            total = to_bf16(total + to_bf16(values[:, rows] @ projection[held]))
        return total

    def _final_norm(self, hidden: Floats, request: int) -> Floats:
        """The norm that is fused with the all-reduce where TP > 1."""
        misread = "fp32_as_bf16" in self._faults and self._tp > 1
        normed = _rms_norm(hidden, fp32_bits_as_bf16(self._norm) if misread else self._norm)
        if "noise" in self._faults:
            rng = np.random.default_rng([request, self._salt])
            normed = normed * (1 + self._faults.value("noise") * rng.standard_normal(normed.shape)).astype(np.float32)
        return normed

    def _damaged(self, logits: Floats, request: int) -> Floats:
        rare = "nan_rare" in self._faults and request % max(int(self._faults.value("nan_rare")), 1) == 0
        late = "broken_after" in self._faults and request > self._faults.value("broken_after")
        if rare or late or "nan_logits" in self._faults or "sentinel" in self._faults:
            return np.full_like(logits, np.nan)
        if "uniform_noise" in self._faults:
            return np.zeros_like(logits)
        return logits


def _parts(tp: int, splits: int, faults: Faults) -> list[tuple[slice, slice]]:
    """The partial sums of one all-reduce, in order: which inputs meet which rows of the weights.

    With `splits` 2 each rank adds up in two pieces. A rank that holds another one's shard meets the wrong rows.
    """
    edges = np.linspace(0, HIDDEN, tp * splits + 1).astype(int).tolist()
    rows = [slice(start, stop) for start, stop in pairwise(edges)]
    if "tp_only" in faults and tp > 1 and HIDDEN % tp == 0:
        return list(zip(rows, [*rows[splits:], *rows[:splits]], strict=True))
    return list(zip(rows, rows, strict=True))


def _rms_norm(values: Floats, weight: Floats) -> Floats:
    normed: Floats = values / np.sqrt((values * values).mean(axis=-1, keepdims=True) + np.float32(_EPSILON)) * weight
    return normed


def _layer_weights(rng: np.random.Generator) -> tuple[Floats, Floats]:
    projection = rng.standard_normal((HIDDEN, HIDDEN)) * _GAIN / np.sqrt(HIDDEN)
    return _norm_weights(rng), to_bf16(projection.astype(np.float32))


def _norm_weights(rng: np.random.Generator) -> Floats:
    """Around 1, in full FP32: their low mantissa bits are what a misreading kernel takes for numbers."""
    return (1 + 0.1 * rng.standard_normal(HIDDEN)).astype(np.float32)
