"""Log lines that tell of weights which were not loaded, and healthy ones that do not."""

from __future__ import annotations

import pytest

from vllm_gate.judge.weights import weight_problems

HEALTHY = [
    "(Worker pid=25407) INFO 12-01 07:04:29 [cpu_model_runner.py:68] Starting to load model /models/smollm2-135m...",
    "(EngineCore pid=1) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: load_format=auto, x=1",
    "(Worker pid=25407) INFO 12-01 07:04:32 [default_loader.py:501] Loading weights took 1.92 seconds",
    "Found 3 nodes in the cluster; the head is not loaded with requests",
]


@pytest.mark.parametrize(
    ("line", "symptom"),
    [
        (
            "ValueError: Following weights were not initialized from checkpoint: {'lm_head.weight'}",
            "uninitialized_weights",
        ),
        (
            "Some weights of LlamaForCausalLM were not initialized from the model checkpoint at /m: ['lm_head.weight']",
            "uninitialized_weights",
        ),
        (
            "Some weights of the model checkpoint at /m were not used when initializing LlamaForCausalLM: ['a.b']",
            "skipped_weights",
        ),
        ("ValueError: There is no module or parameter named 'model.x' in LlamaForCausalLM", "skipped_weights"),
        (
            "Found k_scale in the checkpoint (e.g. a.k), but not the expected name (e.g. a.x). k_scale is not loaded.",
            "skipped_weights",
        ),
        (
            "INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: load_format=dummy, dtype=x",
            "dummy_weights",
        ),
    ],
)
def test_each_kind_is_told_with_its_line(line: str, symptom: str) -> None:
    (problem,) = weight_problems([*HEALTHY, line])
    assert (problem.symptom, problem.line, problem.line_number) == (symptom, line, 5)
    assert problem.meaning


def test_a_healthy_log_has_none() -> None:
    assert weight_problems(HEALTHY) == ()


def test_a_line_that_every_worker_repeats_counts_once() -> None:
    told = "(Worker_TP{} pid=1) Following weights were not initialized from checkpoint: {{'a'}}"
    assert len(weight_problems([told.format(rank) for rank in range(4)])) == 1


def test_an_earlier_start_in_the_same_log_does_not_count() -> None:
    bad = "ValueError: Following weights were not initialized from checkpoint: {'a'}"
    start = "(APIServer pid=1) INFO 12-01 07:02:49 [api_utils.py:286] non-default args: {'model': '/m'}"
    assert weight_problems([start, bad, start, *HEALTHY]) == ()
    assert len(weight_problems([start, *HEALTHY, start, bad])) == 1
