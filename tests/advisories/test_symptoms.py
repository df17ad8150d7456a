"""The eight symptoms of the troubleshooting list, each with what the product makes of it."""

import pytest

from vllm_gate.advisories.coverage import uncovered
from vllm_gate.advisories.matching import known_faults, rank_causes
from vllm_gate.advisories.startup import diagnose_startup
from vllm_gate.judge.diagnosis import Observed, diagnose
from vllm_gate.path.contradictions import contradictions
from vllm_gate.path.fallbacks import is_fallback
from vllm_gate.path.record import ExecutionPath, Observation, State, read_log

DEPLOYED = {
    "runtime_version": "vllm-0.25.0",
    "parallelism_tp": 4,
    "quantization": "nvfp4",
    "fusion_allreduce_rms": True,
}
MODEL = "nvidia/Qwen3.6-27B-NVFP4"
NOTHING = read_log([])
ORIGINAL = "allreduce-rms-quant-fp32-weight"


def seen(**fields: str) -> ExecutionPath:
    return ExecutionPath(fields={name: Observation(state=State.OBSERVED, value=told) for name, told in fields.items()})


def causes(symptom: str, **change: object) -> list[str]:
    return [fault.id for fault in rank_causes([symptom], {**DEPLOYED, **change}, NOTHING, MODEL)]


def test_1_an_import_of_torchcodec_that_kills_the_start() -> None:
    found = diagnose_startup(["RuntimeError: Could not load libtorchcodec. Likely causes: 1. FFmpeg is not installed"])
    assert found is not None
    assert (found.name, found.died) == ("torchcodec_import", True)
    assert "0.25.1" in found.remedy
    assert "torchcodec-import" in causes("torchcodec_import")
    assert causes("torchcodec_import", runtime_version="vllm-0.25.1") == []


def test_2_sixteen_exclamation_marks_in_place_of_ok() -> None:
    symptom = diagnose("OK", Observed(text="!" * 16, token_ids=(0,) * 16)).symptom
    assert symptom == "nan_argmax"
    assert causes(symptom)[0] == ORIGINAL
    assert ORIGINAL not in causes(symptom, runtime_version="vllm-0.25.1")


def test_3_garbage_at_tp_4_while_tp_1_is_right() -> None:
    assert ORIGINAL in causes("nan_argmax", parallelism_tp=4)
    assert ORIGINAL not in causes("nan_argmax", parallelism_tp=1)
    assert any("TP=4 is deployed" in gap for gap in uncovered(DEPLOYED, NOTHING, frozenset({"golden"})))
    assert not any("TP=4" in gap for gap in uncovered(DEPLOYED, NOTHING, frozenset({"tp_variants"})))


@pytest.mark.parametrize("asked", [frozenset[str](), frozenset({"long_context", "log"})])
def test_4_and_5_http_200_in_good_time_with_garbage_inside_when_only_status_and_latency_are_asked(
    asked: frozenset[str],
) -> None:
    (gap,) = [gap for gap in uncovered(DEPLOYED, NOTHING, asked) if "HTTP 200" in gap]
    assert "a server that answers garbage with HTTP 200 would pass" in gap
    for enough in ("golden", "numerical"):
        assert not any("HTTP 200" in gap for gap in uncovered(DEPLOYED, NOTHING, asked | {enough}))


@pytest.mark.parametrize("quantization", ["nvfp4", "fp8"])
def test_6_a_quantisation_that_is_deployed_and_not_compared(quantization: str) -> None:
    deployed = {**DEPLOYED, "quantization": quantization}
    told = f"{quantization} is deployed, but its numbers are not compared (gate 2)"
    assert told in uncovered(deployed, NOTHING, frozenset({"golden"}))
    assert told not in uncovered(deployed, NOTHING, frozenset({"golden", "numerical"}))
    assert not any("compared (gate 2)" in gap for gap in uncovered({}, seen(quantization="None"), frozenset()))


def test_7_a_fallback_or_a_cast_that_nobody_explained() -> None:
    line = "FlashInfer mnnvl allreduce workspace unavailable (likely no NVSwitch); falling back to trtllm backend."
    assert is_fallback(line)
    assert [one.explanation for one in read_log([line]).fallbacks] == [""]
    assert [one.name for one in contradictions(read_log(["Casting torch.bfloat16 to torch.float16."]))] == [
        "cast_to_fp16"
    ]


def test_8_enforce_eager_kept_as_a_workaround() -> None:
    eager = seen(enforce_eager="True", device="cuda", quantization="modelopt_fp4", parallelism_tp="4")
    (gap,) = [gap for gap in uncovered(DEPLOYED, eager, frozenset()) if "enforce_eager" in gap]
    assert "costs speed, and hides faults of graphs and fusions" in gap
    assert not any("enforce_eager" in gap for gap in uncovered(DEPLOYED, seen(enforce_eager="False"), frozenset()))


def test_an_alias_does_not_hide_which_model_was_loaded() -> None:
    loaded = seen(model=MODEL)
    assert ORIGINAL in {fault.id for fault in known_faults(DEPLOYED, loaded, "production")}
    assert ORIGINAL not in {fault.id for fault in known_faults(DEPLOYED, NOTHING, "production")}
