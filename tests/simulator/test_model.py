"""The language model's numbers: small differences between healthy servers, larger ones for each fault."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.model import LanguageModel

VOCABULARY = 1200
PROMPTS = [np.random.default_rng(n).integers(1, VOCABULARY, 48) for n in range(24)]


def probabilities(*faults: str, tp: int = 1, batch: int = 1, seed: int = 0) -> NDArray[np.float64]:
    model = LanguageModel(VOCABULARY, seed, tp, Faults(faults))
    rows = [model.logits(ids, batch=batch, request=n + 1) for n, ids in enumerate(PROMPTS)]
    logits = np.concatenate(rows).astype(np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return shares


HEALTHY = probabilities()


def drift(*faults: str, tp: int = 1, batch: int = 1) -> float:
    """Mean total variation against a healthy server without tensor parallelism."""
    return float(np.abs(HEALTHY - probabilities(*faults, tp=tp, batch=batch)).sum(axis=1).mean() / 2)


def test_the_same_server_gives_the_same_bits() -> None:
    assert np.array_equal(HEALTHY, probabilities())


def test_another_seed_is_another_model() -> None:
    assert np.abs(HEALTHY - probabilities(seed=1)).sum(axis=1).mean() / 2 > 0.5


@pytest.mark.parametrize("tp", [2, 3, 4, 8])
def test_healthy_tensor_parallelism_moves_a_little(tp: int) -> None:
    assert 0.003 < drift(tp=tp) < 0.015


def test_a_larger_batch_sums_in_another_order() -> None:
    assert 0 < drift(batch=8) < 0.015


def test_entropies_reach_from_certain_to_open() -> None:
    entropies = -(HEALTHY * np.log(HEALTHY + 1e-300)).sum(axis=1)
    low, high = np.quantile(entropies, [0.1, 0.9])
    assert low < 0.5 < 3 < high


@pytest.mark.parametrize(
    ("fault", "least", "most"),
    [
        ("noise:0.01", 0.004, 0.02),
        ("noise:0.05", 0.025, 0.1),
        ("int8_weights", 0.01, 0.03),
        ("fp8_kv_long:8", 0.004, 0.05),
    ],
)
def test_a_subtle_fault_has_its_size(fault: str, least: float, most: float) -> None:
    assert least < drift(fault) < most


def test_int8_weights_cost_about_a_thousandth_of_a_nat() -> None:
    faulty = probabilities("int8_weights")
    divergence = (HEALTHY * (np.log(HEALTHY + 1e-300) - np.log(faulty + 1e-300))).sum(axis=1).mean()
    assert 0.0005 < divergence < 0.004


@pytest.mark.parametrize("fault", ["one_rank_dead", "tp_only"])
def test_a_tensor_parallel_fault_is_silent_on_one_gpu_and_gross_on_four(fault: str) -> None:
    assert drift(fault) == 0
    assert drift(fault, tp=4) > 0.2


def test_fp32_norm_weights_read_as_bf16_give_nan_and_argmax_zero_only_where_sharded() -> None:
    assert drift("fp32_as_bf16") == 0
    logits = LanguageModel(VOCABULARY, 0, 4, Faults(("fp32_as_bf16",))).logits(PROMPTS[0])
    assert np.isnan(logits).all()
    assert set(logits.argmax(axis=1)) == {0}


def test_precision_of_a_long_kv_cache_is_lost_only_far_back() -> None:
    ids = np.random.default_rng(5).integers(1, VOCABULARY, 400)
    healthy, faulty = (LanguageModel(VOCABULARY, faults=Faults(f)).logits(ids) for f in ((), ("fp8_kv_long:256",)))
    assert np.array_equal(healthy[:256], faulty[:256])
    assert not np.array_equal(healthy[300:], faulty[300:])


def test_garbage_begins_at_its_position() -> None:
    healthy, faulty = (
        LanguageModel(VOCABULARY, faults=Faults(f)).logits(PROMPTS[0]) for f in ((), ("garbage_beyond:20",))
    )
    assert np.array_equal(healthy[:20], faulty[:20])
    assert (healthy[20:].argmax(axis=1) != faulty[20:].argmax(axis=1)).mean() > 0.5


def test_one_request_in_two_hundred_is_nan() -> None:
    model = LanguageModel(VOCABULARY, faults=Faults(("nan_rare",)))
    broken = [n for n in range(1, 401) if np.isnan(model.logits([1, 2], positions=slice(-1, None), request=n)).any()]
    assert broken == [200, 400]


def test_an_intended_token_is_the_argmax_everywhere() -> None:
    model = LanguageModel(VOCABULARY, tp=4)
    for ids in PROMPTS:
        assert model.logits(ids, positions=slice(-1, None), intended=[77])[0].argmax() == 77
