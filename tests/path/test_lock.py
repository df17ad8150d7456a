"""The lock: what is approved, how it is written, what differs from it, and what [matrix] declares."""

import datetime

import pytest

from vllm_gate.errors import FileProblem
from vllm_gate.path.contradictions import contradictions
from vllm_gate.path.diff import Severity, changes, gone, unapproved
from vllm_gate.path.lock import Approved, Lock, approve, parse, to_text
from vllm_gate.path.matrix import compare
from vllm_gate.path.record import ExecutionPath, read_log

TODAY = datetime.date(2026, 12, 1)
ENGINE = (
    "Initializing a V1 LLM engine (v0.25.1) with config: model='m', dtype=torch.bfloat16, tensor_parallel_size=4, "
    "quantization=modelopt_fp4, enforce_eager=False, kv_cache_dtype=auto, enable_prefix_caching=True"
)
FUSIONS = "Enabled custom fusions: norm_quant, act_quant, allreduce_rms"
WORKSPACE = "Initialized FlashInfer Allreduce norm quantization fusion workspace with backend=trtllm"
ATTENTION = "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER']."
ALLREDUCE = "Using ['FLASHINFER', 'PYNCCL'] all-reduce backends (in dispatch order) for group 'tp:0' out of potential"
FALLBACK = "FlashInfer mnnvl allreduce workspace unavailable; falling back to trtllm backend for single node."
UP = "INFO:     Application startup complete."
PATH = (ENGINE, FUSIONS, WORKSPACE, ATTENTION, ALLREDUCE, UP)


def record(*lines: str) -> ExecutionPath:
    return read_log(lines or PATH)


def test_a_lock_comes_back_as_it_was_written() -> None:
    lock = approve(record(*PATH, FALLBACK), reason="no NVSwitch", today=TODAY, expires=datetime.date(2027, 1, 1))
    assert parse(to_text(lock), "x") == lock
    assert lock.facts["dtype_activation"] == "bf16"
    assert lock.facts["moe_backend"] is None
    assert lock.fallbacks[0].reason == "no NVSwitch"


def test_a_lock_is_one_fact_a_line_in_a_stable_order() -> None:
    text = to_text(approve(record(), reason="first", today=TODAY))
    assert text == to_text(approve(record(*reversed(PATH)), reason="first", today=TODAY))
    rows = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert rows == sorted(rows)
    assert '"dtype_activation": "bf16",' in rows


def test_what_was_approved_differs_in_nothing() -> None:
    assert changes(record(), approve(record(), reason="r", today=TODAY)) == ()


@pytest.mark.parametrize(
    ("old", "new", "field", "severity"),
    [
        ("dtype=torch.bfloat16", "dtype=torch.float16", "dtype_activation", Severity.CHANGED),
        ("quantization=modelopt_fp4", "quantization=fp8", "quantization", Severity.CHANGED),
        ("enforce_eager=False", "enforce_eager=True", "enforce_eager", Severity.WORSE),
        ("norm_quant, act_quant, allreduce_rms", "norm_quant, act_quant", "fusions", Severity.WORSE),
        ("Using FLASHINFER attention", "Using TRITON_ATTN attention", "attention_backend", Severity.CHANGED),
    ],
)
def test_each_change_is_found_and_weighed(old: str, new: str, field: str, severity: Severity) -> None:
    lock = approve(record(), reason="r", today=TODAY)
    (change,) = changes(record(*(line.replace(old, new) for line in PATH)), lock)
    assert (change.field, change.severity) == (field, severity)


def test_a_fusion_that_comes_back_is_better_and_a_line_that_is_gone_is_worse() -> None:
    without = tuple(line for line in PATH if line != FUSIONS)
    (lost,) = changes(record(*without), approve(record(), reason="r", today=TODAY))
    assert (lost.field, lost.observed, lost.severity) == ("fusions", None, Severity.WORSE)
    fewer = approve(record(*(line.replace(", allreduce_rms", "") for line in PATH)), reason="r", today=TODAY)
    assert [change.severity for change in changes(record(), fewer)] == [Severity.BETTER]


def test_a_cast_that_nobody_approved_is_worse() -> None:
    lock = approve(record(), reason="r", today=TODAY)
    (cast,) = changes(record(*PATH, "Casting torch.bfloat16 to torch.float16."), lock)
    assert (cast.field, cast.approved, cast.severity) == ("dtype_cast", None, Severity.WORSE)


def test_a_fallback_needs_an_approval_that_still_holds() -> None:
    seen = record(*PATH, FALLBACK)
    (fallback,) = seen.fallbacks
    assert unapproved(seen, None, TODAY) == (fallback,)
    assert unapproved(seen, approve(seen, reason="known", today=TODAY), TODAY) == ()
    for expires, still_open in ((TODAY, ()), (TODAY - datetime.timedelta(days=1), (fallback,))):
        lock = Lock(fallbacks=(Approved(id=fallback.id, reason="r", expires=expires),))
        assert unapproved(seen, lock, TODAY) == still_open


def test_an_approved_fallback_that_is_gone_is_told() -> None:
    assert len(gone(record(), approve(record(*PATH, FALLBACK), reason="r", today=TODAY))) == 1


def test_approving_again_keeps_the_reason_and_expiry_of_known_fallbacks() -> None:
    first = approve(record(*PATH, FALLBACK), reason="no NVSwitch", today=TODAY, expires=TODAY)
    again = approve(record(*PATH, FALLBACK), reason="other", today=TODAY, previous=first)
    assert again.fallbacks == first.fallbacks
    assert again.reason == "other"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[]", "not a lock"),
        ('{"format": "vllm-gate execution path", "version": 2}', "version 2"),
        ('{"format": "vllm-gate execution path", "version": 1, "facts": 3, "fallbacks": []}', "facts"),
        ('{"format": "vllm-gate execution path", "version": 1, "facts": {}, "fallbacks": {}}', "a list"),
        ('{"format": "vllm-gate execution path", "version": 1, "facts": {}, "fallbacks": [{"id": "x"}]}', "reason"),
        (
            to_text(Lock()).replace("[]", '[{"id": "x", "reason": "r", "expires": "soon"}]'),
            "YYYY-MM-DD",
        ),
    ],
)
def test_what_is_no_lock_is_told(text: str, words: str) -> None:
    with pytest.raises(FileProblem, match=words):
        parse(text, "vllm-gate.lock.json")


EXAMPLE = {
    "runtime_version": "vllm-0.25.1",
    "hardware": "H100",
    "parallelism_tp": 4,
    "attention_backend": "flashinfer",
    "allreduce_backend": "flashinfer-trtllm",
    "fusion_allreduce_rms": True,
    "fusion_static_quant": True,
    "dtype_activation": "bf16",
    "dtype_rmsnorm_weight": "fp32",
}
"""The matrix of the example configuration."""


def test_the_examples_matrix_agrees_with_such_a_server() -> None:
    compared = compare(EXAMPLE, record())
    assert all(one.agrees for one in compared), [one for one in compared if not one.agrees]
    assert {one.key for one in compared if one.observed is None} == {"hardware", "dtype_rmsnorm_weight"}


@pytest.mark.parametrize(
    ("key", "declared"),
    [
        ("runtime_version", "vllm-0.25.0"),
        ("parallelism_tp", 2),
        ("attention_backend", "flash_attn"),
        ("allreduce_backend", "custom"),
        ("fusion_allreduce_rms", False),
        ("dtype_activation", "fp16"),
        ("quantization", "fp8"),
        ("enforce_eager", True),
        ("prefix_caching", False),
        ("model_runner", "v2"),
    ],
)
def test_each_key_that_is_not_as_declared_is_found(key: str, declared: object) -> None:
    (one,) = compare({key: declared}, record())
    assert not one.agrees


def test_a_healthy_path_does_not_contradict_itself_and_a_broken_one_does() -> None:
    assert contradictions(record()) == ()
    failed = "Failed to initialize Flashinfer allreduce workspace. Flashinfer allreduce-norm fusion will be disabled."
    assert [rule.name for rule in contradictions(record(*PATH, failed))] == ["fusion_without_workspace"]
    cast = "Casting torch.bfloat16 to torch.float16."
    assert [rule.name for rule in contradictions(record(*PATH, cast))] == ["cast_to_fp16"]
    none = [line.replace("modelopt_fp4", "None") for line in PATH]
    kernel = "Using FlashInferCutlassNvFp4LinearKernel for NVFP4 GEMM"
    assert [rule.name for rule in contradictions(record(*none, kernel))] == ["quantised_kernels_without_quantisation"]
