"""Number formats, bit by bit."""

from __future__ import annotations

import numpy as np

from vllm_gate.simulator.numerics import fp32_bits_as_bf16, to_bf16


def test_bfloat16_rounds_to_nearest_even() -> None:
    step = 2.0**-7  # between 1 and 2
    values = np.array([1.0, 1 + step * 0.49, 1 + step * 0.51, 1 + step / 2, 1 + step * 1.5], dtype=np.float32)
    assert to_bf16(values).tolist() == [1.0, 1.0, 1 + step, 1.0, 1 + step * 2]


def test_bfloat16_keeps_nan_and_infinity() -> None:
    kept = to_bf16(np.array([np.nan, np.inf, -np.inf], dtype=np.float32))
    assert np.isnan(kept[0])
    assert kept[1:].tolist() == [np.inf, -np.inf]


def test_the_first_half_of_the_buffer_is_read_as_twice_as_many_numbers() -> None:
    one_and_a_bit = np.array([0x3F80_4000], dtype=np.uint32).view(np.float32)[0]
    weights = np.array([one_and_a_bit, one_and_a_bit, 7.0, 7.0], dtype=np.float32)
    # little-endian: the low half 0x4000 is 2.0 as bfloat16, the high half 0x3F80 is 1.0
    assert fp32_bits_as_bf16(weights).tolist() == [2.0, 1.0, 2.0, 1.0]
