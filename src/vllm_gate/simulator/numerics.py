"""Number formats as hardware has them: rounding to bfloat16, and reading bits as what they are not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


_ONE, _HALF, _SIXTEEN, _HIGH = np.uint32(1), np.uint32(0x7FFF), np.uint32(16), np.uint32(0xFFFF0000)


def to_bf16(values: Floats) -> Floats:
    """Each value rounded to the nearest bfloat16, ties to even; kept as float32. NaN and infinity stay."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + (((bits >> _SIXTEEN) & _ONE) + _HALF)) & _HIGH
    result: Floats = rounded.view(np.float32)
    if not np.isfinite(result).all():
        result = np.where(np.isfinite(values), result, values)
    return result


def fp32_bits_as_bf16(weights: Floats) -> Floats:
    """What a kernel sees that takes a float32 buffer for a bfloat16 one of the same length.

    It reads the first half of the buffer as twice as many 16-bit numbers: low halves (noise) and high halves in turn.
    """
    halves = np.ascontiguousarray(weights, dtype=np.float32).view(np.uint16)[: weights.size]
    widened: NDArray[np.uint32] = np.left_shift(halves.astype(np.uint32), _SIXTEEN)
    return widened.view(np.float32)


def int8(matrix: Floats) -> Floats:
    """Each weight rounded to 8 bits, symmetric, scaled by the largest magnitude of the whole tensor."""
    scale = np.abs(matrix).max() / 127
    rounded: Floats = (np.round(matrix / scale) * scale).astype(np.float32)
    return rounded


def fp8_e4m3(values: Floats) -> Floats:
    """Each value rounded to 3 mantissa bits, as in FP8 E4M3 within its range."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 16) / 16, exponent).astype(np.float32)


def log_softmax(logits: Floats) -> NDArray[np.float64]:
    """Log-probabilities along the last axis, in nats; a row with NaN is all NaN."""
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(axis=-1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
