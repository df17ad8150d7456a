"""Faults by name, with or without a value."""

from __future__ import annotations

import pytest

from vllm_gate.simulator.faults import FAULTS, Fault, parse_fault


@pytest.mark.parametrize("name", FAULTS)
def test_each_name_stands_alone(name: str) -> None:
    assert parse_fault(name) == Fault(name, FAULTS[name].default or 0)


def test_a_value_replaces_the_default() -> None:
    assert parse_fault("noise:0.01") == Fault("noise", 0.01)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fp32_as_bf", "'fp32_as_bf16'"),
        ("zzz", "known are"),
        ("noise:much", "a number from 0 up, not 'much'"),
        ("noise:-1", "a number from 0 up"),
        ("noise:inf", "a number from 0 up"),
        ("noise:nan", "a number from 0 up"),
        ("loop:3", "takes no value"),
    ],
)
def test_a_wrong_fault_is_explained(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_fault(text)
