"""Each known fault concerns the release it was reported for, and not the one that fixed it."""

import pytest

from vllm_gate.advisories.coverage import uncovered
from vllm_gate.advisories.known import ADVISORIES, Advisory
from vllm_gate.advisories.matching import in_range, known_faults, rank_causes
from vllm_gate.path.record import ExecutionPath, Observation, State, read_log

ORIGINAL = {
    "runtime_version": "vllm-0.25.0",
    "parallelism_tp": 4,
    "quantization": "nvfp4",
    "fusion_allreduce_rms": True,
}
MODEL = "nvidia/Qwen3.6-27B-NVFP4"
EMPTY = read_log([])


def ids(matrix: dict[str, object], record: ExecutionPath = EMPTY, model: str = MODEL) -> set[str]:
    return {advisory.id for advisory in known_faults(matrix, record, model)}


def test_there_are_many_and_each_is_whole() -> None:
    assert len(ADVISORIES) >= 30
    assert len({advisory.id for advisory in ADVISORIES}) == len(ADVISORIES)
    for advisory in ADVISORIES:
        assert advisory.title
        assert advisory.reference
        assert advisory.remedy
        assert advisory.symptoms
        assert advisory.affected or advisory.models or advisory.quantization or advisory.needs


@pytest.mark.parametrize(
    ("version", "affected"),
    [("0.22.0", False), ("0.23.0", True), ("0.24.0", True), ("0.25.0", True), ("0.25.1", False), ("0.32.0", False)],
)
def test_the_original_fault_is_in_0_23_to_0_25_0_and_fixed_in_0_25_1(version: str, affected: bool) -> None:
    found = ids({**ORIGINAL, "runtime_version": f"vllm-{version}"})
    assert ("allreduce-rms-quant-fp32-weight" in found) is affected


@pytest.mark.parametrize(
    "change",
    [{"parallelism_tp": 1}, {"quantization": "none"}, {"fusion_allreduce_rms": False}],
    ids=lambda change: next(iter(change)),
)
def test_the_original_fault_needs_all_of_its_conditions(change: dict[str, object]) -> None:
    model = "nvidia/Qwen3.6-27B" if "quantization" in change else MODEL
    assert "allreduce-rms-quant-fp32-weight" not in ids({**ORIGINAL, **change}, model=model)
    assert "allreduce-rms-quant-fp32-weight" not in ids(ORIGINAL, model="mistralai/Mistral-7B-FP8")


@pytest.mark.parametrize(("version", "affected"), [("0.24.0", False), ("0.25.0", True), ("0.25.1", False)])
def test_torchcodec_kills_starts_of_0_25_0_alone(version: str, affected: bool) -> None:
    assert ("torchcodec-import" in ids({"runtime_version": version})) is affected


def matching(advisory: Advisory) -> tuple[dict[str, object], ExecutionPath, str]:
    """A release that meets every condition of an advisory."""
    version = "0.22.0"
    if advisory.affected:
        bounds = advisory.affected[0].replace(",", " ").split()
        lower = next((bound.removeprefix(">=") for bound in bounds if bound.startswith(">=")), None)
        version = lower or "0.1.0"
    names = ["llama4", "glm", "qwen3.5", "qwen3-8b", "gemma-3", "gpt-oss", "kimi", "mimo", "leanstral"]
    import re

    model = next((name for name in names if re.search(advisory.models, name)), "m") if advisory.models else "m"
    fields = {"runtime_version": version, "parallelism_tp": str(advisory.min_tp)}
    if advisory.quantization:
        fields["quantization"] = advisory.quantization[0]
    if advisory.backends:
        fields["linear_kernels"] = advisory.backends[0]
    observations = {name: Observation(state=State.OBSERVED, value=value) for name, value in fields.items()}
    for need in advisory.needs:
        name, operator, value = re.split(r"([=~!])", need, maxsplit=1)
        if value == "absent":
            observations[name] = Observation(state=State.ABSENT)
        else:
            told = "mtp" if operator == "!" else value
            observations[name] = Observation(state=State.OBSERVED, value=told)
    return {}, ExecutionPath(fields=observations), model


@pytest.mark.parametrize("advisory", ADVISORIES, ids=lambda advisory: advisory.id)
def test_each_concerns_a_release_that_meets_its_conditions_and_no_empty_one(advisory: Advisory) -> None:
    matrix, record, model = matching(advisory)
    assert advisory.id in {found.id for found in known_faults(matrix, record, model)}
    if advisory.affected or advisory.needs or advisory.quantization or advisory.min_tp > 1:
        assert advisory.id not in {found.id for found in known_faults({}, EMPTY, "")}


FIXED = [(advisory, span.rpartition("<")[2]) for advisory in ADVISORIES for span in advisory.affected if "<" in span]


@pytest.mark.parametrize(("advisory", "fixed_in"), FIXED, ids=[f"{one.id} in {fixed}" for one, fixed in FIXED])
def test_each_that_is_fixed_concerns_the_release_that_fixed_it_no_more(advisory: Advisory, fixed_in: str) -> None:
    _, record, model = matching(advisory)
    fixed = Observation(state=State.OBSERVED, value=fixed_in)
    assert advisory.id not in ids({}, ExecutionPath(fields={**record.fields, "runtime_version": fixed}), model)


NARROWED = [
    (advisory, condition)
    for advisory in ADVISORIES
    for condition in ("quantization", "backends", "models", "min_tp")
    if getattr(advisory, condition) not in ((), "", 1)
]


@pytest.mark.parametrize(("advisory", "condition"), NARROWED, ids=[f"{one.id}: {name}" for one, name in NARROWED])
def test_each_leaves_a_release_alone_that_lacks_one_of_its_conditions(advisory: Advisory, condition: str) -> None:
    _, record, model = matching(advisory)
    lacking = dict(record.fields)
    for name in {"quantization": ["quantization"], "backends": ["linear_kernels"], "min_tp": ["parallelism_tp"]}.get(
        condition, []
    ):
        lacking.pop(name)
    told = "m" if condition in ("models", "quantization") else model
    assert advisory.id not in ids({}, ExecutionPath(fields=lacking), told)


def test_a_report_without_a_known_cause_comes_after_those_with_one() -> None:
    record = ExecutionPath(fields={"speculative_decoding": Observation(state=State.OBSERVED, value="mtp")})
    everything = [symptom for advisory in ADVISORIES for symptom in advisory.symptoms]
    ranked = [cause.certain for cause in rank_causes(everything, ORIGINAL, record, "Qwen/Qwen3-8B-MiMo-NVFP4")]
    assert ranked == sorted(ranked, reverse=True)
    assert len(set(ranked)) == 2, "both kinds concern this release, or the test shows nothing"


@pytest.mark.parametrize(
    ("version", "span", "inside"),
    [
        ("0.25.0", ">=0.23.0,<0.25.1", True),
        ("0.25.1", ">=0.23.0,<0.25.1", False),
        ("0.25.0+cu130", ">=0.23.0,<0.25.1", True),
        ("0.25.0rc1", ">=0.25.0", True),
        ("0.9.2", "<0.10.0", True),
        ("0.10.0", "<0.9.0", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, span: str, inside: bool) -> None:
    assert in_range(version, [span]) is inside


def test_after_a_failure_the_known_cause_comes_first() -> None:
    causes = rank_causes(["nan_argmax"], ORIGINAL, EMPTY, MODEL)
    assert causes[0].id == "allreduce-rms-quant-fp32-weight"
    assert rank_causes(["hang"], ORIGINAL, EMPTY, MODEL) == ()


def test_what_is_deployed_and_not_gated_is_told() -> None:
    gaps = " ".join(uncovered(ORIGINAL, EMPTY, frozenset()))
    assert "only liveness is asked" in gaps
    assert "TP=4 is deployed, but not compared with TP=1" in gaps
    assert "nvfp4 is deployed" in gaps
    everything = frozenset({"golden", "numerical", "tp_variants", "long_context", "tools", "prefix_cache", "log"})
    assert uncovered(ORIGINAL, EMPTY, everything) == ()


def test_enforce_eager_kept_as_a_workaround_is_flagged_on_gpus_alone() -> None:
    def eager(device: str) -> ExecutionPath:
        seen = {"enforce_eager": "True", "device": device}
        return ExecutionPath(fields={k: Observation(state=State.OBSERVED, value=v) for k, v in seen.items()})

    assert "enforce_eager" in " ".join(uncovered({}, eager("cuda"), frozenset({"golden", "tools"})))
    assert "enforce_eager" not in " ".join(uncovered({}, eager("cpu"), frozenset({"golden", "tools"})))
