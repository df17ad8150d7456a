"""What endpoints, answers, the machine and the checkpoint tell, and what becomes of it beside the log."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_gate.path.checkpoint import read_checkpoint
from vllm_gate.path.contradictions import contradictions
from vllm_gate.path.record import State, read_log
from vllm_gate.path.sources import (
    Reported,
    from_devices,
    from_fingerprint,
    from_server_info,
    from_version,
    merge,
)

LOG = (
    (
        "Initializing a V1 LLM engine (v0.32.0) with config: model='m', dtype=torch.bfloat16, tensor_parallel_size=4, "
        "quantization=None, enforce_eager=False, kv_cache_dtype=auto, device_config=cuda"
    ),
    "INFO:     Application startup complete.",
)
INFO = {
    "vllm_config": {
        "model_config": {"dtype": "torch.bfloat16", "quantization": "modelopt", "max_model_len": 32768},
        "parallel_config": {"tensor_parallel_size": 4, "pipeline_parallel_size": 1, "data_parallel_size": 1},
        "cache_config": {"cache_dtype": "fp8", "enable_prefix_caching": True},
        "scheduler_config": {"enable_chunked_prefill": True},
        "load_config": {"load_format": "auto"},
        "device_config": {"device_type": "cuda"},
        "compilation_config": {
            "mode": 3,
            "cudagraph_mode": [2, 1],
            "pass_config": {"fuse_norm_quant": True, "fuse_allreduce_rms": True, "fuse_act_quant": False},
        },
    },
    "system_env": {"vllm_version": "0.32.0 (git sha: abc)", "nvidia_gpu_models": "GPU 0: NVIDIA H100 80GB HBM3"},
}


@pytest.mark.parametrize(
    ("fingerprint", "facts"),
    [
        (
            "vllm-0.32.0-tp4-1a2b3c4d",
            {"runtime_version": "0.32.0", "parallelism_tp": "4", "parallelism_pp": "1", "parallelism_dp": "1"},
        ),
        (
            "vllm-0.32.0-tp8-pp2-dp4-ep-1a2b3c4d",
            {"runtime_version": "0.32.0", "parallelism_tp": "8", "parallelism_pp": "2", "parallelism_dp": "4"},
        ),
        ("vllm-0.32.0-1a2b3c4d", {"runtime_version": "0.32.0"}),
        ("fp_44709d6fcb", {}),
        ("", {}),
    ],
)
def test_a_fingerprint_tells_the_version_and_the_sizes_it_holds(fingerprint: str, facts: dict[str, str]) -> None:
    assert from_fingerprint(fingerprint).facts == facts


def test_server_info_tells_the_same_fields_as_a_log() -> None:
    assert from_server_info(INFO).facts == {
        "runtime_version": "0.32.0",
        "dtype_activation": "torch.bfloat16",
        "quantization": "modelopt",
        "max_model_len": "32768",
        "parallelism_tp": "4",
        "parallelism_pp": "1",
        "parallelism_dp": "1",
        "dtype_kv_cache": "fp8",
        "prefix_caching": "True",
        "chunked_prefill": "True",
        "load_format": "auto",
        "device": "cuda",
        "compile_mode": "VLLM_COMPILE",
        "cudagraph_mode": "FULL_AND_PIECEWISE",
        "fusions": "norm_quant, allreduce_rms",
        "hardware": "1 x NVIDIA H100 80GB HBM3",
    }


@pytest.mark.parametrize("info", [None, {}, {"vllm_config": "text"}, {"vllm_config": {"model_config": [1]}}])
def test_a_shape_that_is_not_known_tells_nothing(info: dict[str, object] | None) -> None:
    assert from_server_info(info).facts == {}


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(JSON)
def test_no_body_of_server_info_crashes(section: object) -> None:
    names = ("model_config", "parallel_config", "device_config", "compilation_config")
    from_server_info({"vllm_config": dict.fromkeys(names, section), "system_env": section})


def test_devices_are_counted_by_name() -> None:
    listing = "GPU 0: NVIDIA H100 (UUID: GPU-1)\nGPU 1: NVIDIA H100 (UUID: GPU-2)\nNVIDIA A10\n\n"
    assert from_devices(listing).facts == {"hardware": "1 x NVIDIA A10, 2 x NVIDIA H100"}
    assert from_devices(" \n").facts == {}


def test_what_the_log_leaves_open_comes_from_the_first_source_that_tells_it() -> None:
    record = merge(read_log(LOG[:0]), [from_version("0.32.0"), from_server_info(INFO)])
    assert (record["runtime_version"].value, record["runtime_version"].source) == ("0.32.0", "/version")
    assert (record["dtype_kv_cache"].value, record["dtype_kv_cache"].source) == ("fp8", "/server_info")
    assert record["dtype_activation"].value == "bf16"
    assert record.disagreements == ()


def test_a_build_of_the_same_release_is_no_disagreement() -> None:
    assert merge(read_log(LOG), [from_version("0.32.0+cu130")]).disagreements == ()


@pytest.mark.parametrize(
    ("reported", "sentence"),
    [
        (from_version("0.25.0"), "runtime_version is 0.32.0 by the log and 0.25.0 by /version"),
        (from_fingerprint("vllm-0.32.0-tp2-1a2b3c4d"), "parallelism_tp is 4 by the log and 2 by system_fingerprint"),
        (Reported("/server_info", {"dtype_activation": "torch.float16"}), "dtype_activation is bf16 by the log"),
    ],
)
def test_the_log_of_another_server_is_found_out(reported: Reported, sentence: str) -> None:
    record = merge(read_log(LOG), [reported])
    (told,) = record.disagreements
    assert told.startswith(sentence)
    (found,) = contradictions(record)
    assert found.name.startswith("sources_disagree_")
    assert "is this the log of this server?" in found.sentence
    assert record["runtime_version"].value == "0.32.0", "the log stays the proof of its own fields"


def safetensors(**tensors: tuple[str, list[int]]) -> bytes:
    header = {name.replace("__", "."): {"dtype": dtype, "shape": shape} for name, (dtype, shape) in tensors.items()}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return len(text).to_bytes(8, "little") + text


WEIGHTS = safetensors(
    model__layers__0__mlp__up_proj__weight=("F8_E4M3", [64, 64]),
    model__layers__0__input_layernorm__weight=("F32", [64]),
    model__norm__weight=("F32", [64]),
    lm_head__weight=("BF16", [8, 8]),
)


def test_the_headers_tell_the_formats_of_weights_and_norms() -> None:
    assert read_checkpoint({"model.safetensors": WEIGHTS}).facts == {
        "dtype_weights": "fp8_e4m3",
        "dtype_rmsnorm_weight": "fp32",
    }


def test_norms_in_several_formats_are_all_named() -> None:
    files = {"a.safetensors": WEIGHTS, "b.safetensors": safetensors(model__norm__weight=("BF16", [64]))}
    assert read_checkpoint(files).facts["dtype_rmsnorm_weight"] == "bf16, fp32"


@pytest.mark.parametrize(
    ("config", "dtype"),
    [({"model_type": "gemma3"}, "fp32"), ({"text_config": {"model_type": "qwen3_5"}}, "fp32"), ({}, "bf16")],
)
def test_a_norm_that_multiplies_by_one_plus_its_weight_is_computed_in_fp32(config: object, dtype: str) -> None:
    files = {
        "m.safetensors": safetensors(model__norm__weight=("BF16", [64])),
        "config.json": json.dumps(config).encode(),
    }
    assert read_checkpoint(files).facts["dtype_rmsnorm_weight"] == dtype


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"config.json": b'{"quantization_config": {"quant_method": "fp8"}}'}, "fp8"),
        ({"hf_quant_config.json": b'{"quantization": {"quant_algo": "NVFP4"}}'}, "modelopt NVFP4"),
        (
            {"config.json": b'{"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}}'},
            "modelopt FP8",
        ),
        ({"config.json": b"{}"}, None),
        ({"config.json": b"[" * 100_000}, None),
    ],
)
def test_the_checkpoints_quantisation(files: dict[str, bytes], told: str | None) -> None:
    assert read_checkpoint(files).facts.get("checkpoint_quantization") == told


@given(st.binary(max_size=200))
def test_no_bytes_of_a_checkpoint_crash(content: bytes) -> None:
    files = {"a.safetensors": content, "config.json": content, "hf_quant_config.json": content}
    read_checkpoint(files | {"b.safetensors": len(content).to_bytes(8, "little") + content})


def test_a_quantised_checkpoint_that_runs_unquantised_contradicts_itself() -> None:
    record = merge(
        read_log(LOG), [read_checkpoint({"config.json": b'{"quantization_config": {"quant_method": "fp8"}}'})]
    )
    assert [found.name for found in contradictions(record)] == ["quantised_checkpoint_without_quantisation"]
    assert record["checkpoint_quantization"].state is State.OBSERVED
