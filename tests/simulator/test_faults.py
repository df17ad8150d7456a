"""Faults by name, with or without a value."""

from __future__ import annotations

import pytest

from vllm_gate.simulator.faults import FAULTS, Fault, Faults, parse_fault


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


def test_a_share_of_the_prompts_is_hit_the_same_ones_each_time_and_others_by_another_fault() -> None:
    prompts = [[1, 2, number] for number in range(2_000)]
    faults = Faults(("loop_rate:0.2", "success_drop:0.2"))
    loops = [prompt[2] for prompt in prompts if faults.strikes("loop_rate", prompt)]
    drops = [prompt[2] for prompt in prompts if faults.strikes("success_drop", prompt)]
    assert loops == [prompt[2] for prompt in prompts if Faults(("loop_rate:0.2",)).strikes("loop_rate", prompt)]
    # 400 of 2,000, five standard deviations of 17.9 either way; of both 80, with 8.8
    assert 310 < len(loops) < 490
    assert 310 < len(drops) < 490
    assert 36 < len(set(loops) & set(drops)) < 124
    assert not any(faults.strikes("language_mix", prompt) for prompt in prompts)
    assert all(Faults(("loop_rate:1",)).strikes("loop_rate", prompt) for prompt in prompts)
    assert not any(Faults(("loop_rate:0",)).strikes("loop_rate", prompt) for prompt in prompts)
