"""Records of real startup logs, checked by hand, and of logs that nobody should write."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_gate.advisories.startup import FAULTS, diagnose_startup
from vllm_gate.path.lines import parse_line
from vllm_gate.path.record import State, read_log

LOGS = Path(__file__).parent / "logs"
ONEDNN = "Failed to create oneDNN linear, fallback to torch linear"
RUNNER = "Model Runner V2 requires Triton; using the V1 model runner instead"
SHM = (
    "CPU SHM communicator disabled for group tp:N: ranks do not share the same SHM group name, "
    "falling back to torch.distributed"
)


def lines(name: str) -> list[str]:
    return (LOGS / f"{name}.log").read_text(errors="replace").splitlines()


@pytest.mark.parametrize(
    ("name", "expected", "fallbacks"),
    [
        ("vllm-0.32.0-cpu-tp1", {"runtime_version": "0.32.0", "parallelism_tp": "1"}, {ONEDNN, RUNNER}),
        ("vllm-0.32.0-cpu-tp3", {"runtime_version": "0.32.0", "parallelism_tp": "3"}, {ONEDNN, RUNNER, SHM}),
        ("vllm-0.27.1-cpu-tp1", {"runtime_version": "0.27.1", "parallelism_tp": "1"}, {ONEDNN, RUNNER}),
    ],
)
def test_the_logs_of_a_real_cpu_server(name: str, expected: dict[str, str], fallbacks: set[str]) -> None:
    record = read_log(lines(name))
    same_in_all = {
        "model": "/models/smollm2-135m",
        "dtype_activation": "bf16",
        "quantization": "None",
        "dtype_kv_cache": "auto",
        "device": "cpu",
        "enforce_eager": "True",
        "prefix_caching": "True",
        "chunked_prefill": "True",
        "speculative_decoding": "None",
        "compile_mode": "NONE",
        "cudagraph_mode": "NONE",
        "architecture": "LlamaForCausalLM",
        "max_model_len": "8192",
        "fusions": "act_quant, norm_quant",
    }
    assert {key: record[key].value for key in same_in_all | expected} == same_in_all | expected
    assert {fallback.id for fallback in record.fallbacks} == fallbacks
    for absent in ("model_runner", "attention_backend", "allreduce_backends", "moe_backend", "dtype_cast"):
        assert record[absent].state is State.ABSENT


def test_every_value_is_proved_by_its_line() -> None:
    source = lines("vllm-0.32.0-cpu-tp1")
    record = read_log(source)
    for seen in record.fields.values():
        if seen.state is State.OBSERVED:
            assert source[seen.line_number - 1].strip().startswith(seen.line[:200])


def test_between_two_versions_little_differs_and_that_is_true() -> None:
    old, new = (read_log(lines(name)) for name in ("vllm-0.27.1-cpu-tp1", "vllm-0.32.0-cpu-tp1"))
    differing = {name for name in old.fields if old[name].value != new[name].value}
    assert differing == {"runtime_version", "ir_op_priority", "kv_cache_layout"}


def test_starts_that_differ_in_times_pids_and_ports_alone_give_one_record() -> None:
    source = lines("vllm-0.32.0-cpu-tp3")
    again = [line.replace("12-01 0", "12-02 1").replace("pid=", "pid=9") for line in source]
    first, second = read_log(source), read_log(again)
    assert {name: seen.value for name, seen in first.fields.items()} == {
        name: seen.value for name, seen in second.fields.items()
    }
    assert [f.id for f in first.fallbacks] == [f.id for f in second.fallbacks]


def test_an_empty_log_leaves_everything_unknown() -> None:
    assert all(seen.state is State.UNKNOWN for seen in read_log([]).fields.values())


def test_ranks_that_disagree_are_kept_apart() -> None:
    said = "INFO 12-01 10:00:00 [a.py:1] Using {} attention backend out of potential backends: []"
    workers = ["(Worker_TP0 pid=1) " + said.format("FLASHINFER"), "(Worker_TP1 pid=2) " + said.format("TRITON_ATTN")]
    record = read_log(workers)
    assert record["attention_backend"].by_rank == {0: "FLASHINFER", 1: "TRITON_ATTN"}


@pytest.mark.parametrize(
    ("line", "text", "level", "rank"),
    [
        ("plain", "plain", "", None),
        ("INFO 06-27 14:10:22 metrics.py:341] done", "done", "INFO", None),
        ("INFO 03-21 08:44:05 [config.py:1028] done", "done", "INFO", None),
        ("(VllmWorker rank=5 pid=77) WARNING 03-21 08:44:05 [a.py:1] done", "done", "WARNING", 5),
        ("(Worker_TP3_EP3 pid=77) INFO 03-21 08:44:05 [v1/a.py:1] done", "done", "INFO", 3),
        ("\x1b[1;36m(Worker_TP0 pid=7)\x1b[0;0m INFO 03-21 08:44:05 [a.py:1] \x1b[32mdone\x1b[0m", "done", "INFO", 0),
        ('{"level": "warning", "message": "done"}', "done", "WARNING", None),
        ("2026-12-01T10:00:00Z INFO 03-21 08:44:05 [a.py:1] done", "done", "INFO", None),
        ("(APIServer pid=1) RuntimeError: x", "RuntimeError: x", "", None),
    ],
)
def test_lines_of_every_form(line: str, text: str, level: str, rank: int | None) -> None:
    message = parse_line(line)
    assert (message.text, message.level, message.rank) == (text, level, rank)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=200), max_size=20))
def test_no_text_crashes_the_reader(source: list[str]) -> None:
    read_log(source)
    diagnose_startup(source)


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=2000))
def test_no_bytes_crash_the_reader(content: bytes) -> None:
    read_log(content.decode("utf-8", errors="replace").splitlines())


def test_a_line_of_ten_megabytes_is_read_up_to_its_bound() -> None:
    record = read_log(["x" * 10_000_000, "Using V2 Model Runner"])
    assert record["model_runner"].value == "v2"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_way_to_die_is_told_by_its_line(fault: object) -> None:
    from vllm_gate.advisories.startup import StartupFault

    assert isinstance(fault, StartupFault)
    found = diagnose_startup(["INFO starting", fault.example])
    assert found is not None
    assert (found.name, found.died, found.line_number) == (fault.name, fault.fatal, 2)
    assert found.remedy


def test_the_cause_is_told_and_not_its_consequence() -> None:
    died = diagnose_startup(lines("vllm-0.25.1-cpu-died-at-start-abi-mismatch"))
    assert died is not None
    assert died.name == "abi_mismatch"
    illegal = diagnose_startup(lines("vllm-0.32.0-died-illegal-instruction"))
    assert illegal is not None
    assert (illegal.name, illegal.died) == ("illegal_instruction", True)


def test_a_server_that_came_up_afterwards_is_not_dead() -> None:
    death = "RuntimeError: Could not load libtorchcodec. Likely causes:"
    assert diagnose_startup([death, "INFO:     Application startup complete."]) is None
    again = diagnose_startup([death, "non-default args: {'model': 'm'}", "Resolved architecture: X"])
    assert again is None, "a new start in the same log has not died yet"


def test_healthy_logs_name_no_death() -> None:
    for name in ("vllm-0.32.0-cpu-tp1", "vllm-0.32.0-cpu-tp3"):
        found = diagnose_startup(lines(name))
        assert found is None or not found.died
