"""Records of real startup logs, checked by hand, and of logs that nobody should write."""

import datetime
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_gate.advisories.startup import FAULTS, diagnose_startup
from vllm_gate.path.diff import changes, unapproved
from vllm_gate.path.lines import parse_line
from vllm_gate.path.lock import approve
from vllm_gate.path.record import OUTSIDE, State, read_chunks, read_log

LOGS = Path(__file__).parent / "logs"
NO_BACKEND = "Triton is installed, but doesn't include CPU backend. Disabling Triton"
ONEDNN = "Failed to create oneDNN linear, fallback to torch linear"
RUNNER = "Model Runner V2 requires Triton; using the V1 model runner instead"
SHM = (
    "CPU SHM communicator disabled for group tp:N: ranks do not share the same SHM group name, "
    "falling back to torch.distributed"
)
NO_DRIVER = "Triton is installed but N active driver(s) found (expected N). Disabling Triton to prevent runtime errors"
OPS_0_27 = "IrOpPriorityConfig(rms_norm=['native'], fused_add_rms_norm=['native'])"
IN_0_32 = {
    "kv_cache_layout": "LBHNC",
    "ir_op_priority": OPS_0_27.replace(")", ", gelu_and_mul_sparse=['native'])"),
}

SAME_IN_ALL = {
    "model": "/models/smollm2-135m",
    "dtype_activation": "bf16",
    "parallelism_pp": "1",
    "parallelism_dp": "1",
    "parallelism_dcp": "1",
    "quantization": "None",
    "dtype_kv_cache": "auto",
    "device": "cpu",
    "enforce_eager": "True",
    "prefix_caching": "True",
    "chunked_prefill": "True",
    "speculative_decoding": "None",
    "custom_allreduce_disabled": "True",
    "load_format": "auto",
    "compile_mode": "NONE",
    "cudagraph_mode": "NONE",
    "requested_moe_backend": "auto",
    "requested_linear_backend": "auto",
    "architecture": "LlamaForCausalLM",
    "max_model_len": "8192",
    "fusions": "act_quant, norm_quant",
}
ONLY_AT_DEBUG = {"fusion_matches", "ir_implementations", "custom_ops"}


def lines(name: str) -> list[str]:
    return (LOGS / f"{name}.log").read_text(errors="replace").splitlines()


@pytest.mark.parametrize(
    ("name", "own", "fallbacks"),
    [
        (
            "vllm-0.32.0-cpu-tp1",
            {
                "runtime_version": "0.32.0",
                "parallelism_tp": "1",
                **IN_0_32,
            },
            {ONEDNN, RUNNER},
        ),
        (
            "vllm-0.32.0-cpu-tp3",
            {
                "runtime_version": "0.32.0",
                "parallelism_tp": "3",
                **IN_0_32,
            },
            {ONEDNN, RUNNER, SHM},
        ),
        (
            "vllm-0.27.1-cpu-tp1",
            {"runtime_version": "0.27.1", "parallelism_tp": "1", "kv_cache_layout": "HND", "ir_op_priority": OPS_0_27},
            {ONEDNN, RUNNER, NO_DRIVER},
        ),
    ],
)
def test_every_field_of_a_real_cpu_servers_log(name: str, own: dict[str, str], fallbacks: set[str]) -> None:
    record = read_log(lines(name))
    observed = {name: seen.value for name, seen in record.fields.items() if seen.state is State.OBSERVED}
    assert observed == SAME_IN_ALL | own
    unknown = {name for name, seen in record.fields.items() if seen.state is State.UNKNOWN}
    assert unknown == ONLY_AT_DEBUG | set(OUTSIDE)
    assert {fallback.id for fallback in record.fallbacks if not fallback.explanation} == fallbacks
    assert record.whole


def test_early_lines_of_a_worker_are_tied_to_its_rank_by_its_process() -> None:
    ranks = {fallback.id: fallback.ranks for fallback in read_log(lines("vllm-0.32.0-cpu-tp3")).fallbacks}
    assert ranks[SHM] == ("TP0", "TP1", "TP2"), "said as plain Worker, before the rank was known"
    assert ranks[ONEDNN] == ("TP0",), "said once by vLLM, on one rank"


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


def test_five_starts_of_one_real_server_give_one_record() -> None:
    sources = [lines(f"vllm-0.32.0-cpu-tp1-start-{number}") for number in range(1, 6)]
    records = [read_log(source) for source in sources]
    told = [{name: (seen.state, seen.value) for name, seen in one.fields.items()} for one in records]
    assert all(one.whole for one in records)
    assert told == [told[0]] * 5
    assert [{fallback.id for fallback in one.fallbacks} for one in records] == [{RUNNER, NO_BACKEND}] * 5
    ports = {re.search(r"'port': (\d+)", "\n".join(source))[1] for source in sources}  # type: ignore[index]
    assert len(ports) == 5, "they are five starts, not one log five times"


def test_any_of_five_starts_passes_when_one_was_approved() -> None:
    records = [read_log(lines(f"vllm-0.32.0-cpu-tp1-start-{number}")) for number in range(1, 6)]
    today = datetime.date(2026, 12, 1)
    lock = approve(records[0], reason="CPU build", today=today)
    for one in records:
        assert (changes(one, lock), unapproved(one, lock, today)) == ((), ())


def test_an_empty_log_leaves_everything_unknown() -> None:
    record = read_log([])
    assert all(seen.state is State.UNKNOWN for seen in record.fields.values())
    assert not record.whole


ENGINE = "Initializing a V1 LLM engine (v{}) with config: model='m', dtype=torch.bfloat16, tensor_parallel_size=1"
UP = "INFO:     Application startup complete."


def test_what_a_start_has_not_said_yet_is_unknown_and_absent_once_it_is_up() -> None:
    starting = read_log([ENGINE.format("0.32.0")])
    assert (starting["moe_backend"].state, starting.whole) == (State.UNKNOWN, False)
    up = read_log([ENGINE.format("0.32.0"), UP])
    assert (up["moe_backend"].state, up.whole) == (State.ABSENT, True)
    without_head = read_log(["Using FLASH_ATTN backend.", UP])
    assert (without_head["moe_backend"].state, without_head.whole) == (State.UNKNOWN, False)


@pytest.mark.parametrize(
    ("version", "field", "state"),
    [
        ("0.11.0", "fusions", State.UNKNOWN),
        ("0.22.0", "fusions", State.ABSENT),
        ("0.11.0", "allreduce_backends", State.UNKNOWN),
        ("0.22.1rc1.dev7+gabc", "allreduce_backends", State.ABSENT),
        ("0.22.0", "query_dtypes", State.UNKNOWN),
        ("0.25.0", "query_dtypes", State.ABSENT),
        ("dev", "query_dtypes", State.ABSENT),
    ],
)
def test_a_release_that_does_not_print_a_message_leaves_its_field_unknown(
    version: str, field: str, state: State
) -> None:
    assert read_log([ENGINE.format(version), UP])[field].state is state


def test_messages_of_the_debug_level_are_absent_in_debug_logs_alone() -> None:
    info = [ENGINE.format("0.32.0"), UP]
    assert read_log(info)["custom_ops"].state is State.UNKNOWN
    assert read_log([*info, "DEBUG 12-01 10:00:00 [a/b.py:1] whatever"])["custom_ops"].state is State.ABSENT
    assert read_log([*info, '{"level": "DEBUG", "message": "whatever"}'])["custom_ops"].state is State.ABSENT


def test_a_warm_compile_cache_hides_what_the_passes_say() -> None:
    cold = [ENGINE.format("0.32.0"), UP]
    assert read_log(cold)["allreduce_fusion_backend"].state is State.ABSENT
    warm = read_log([*cold, "Directly load the compiled graph(s) for compile range (1, 8) from the cache, took 2.1 s"])
    assert warm["allreduce_fusion_backend"].state is State.UNKNOWN
    assert warm["compile_cache"].value == "warm"


def test_a_server_that_was_started_again_is_judged_by_its_last_start() -> None:
    first = ["non-default args: {'model': 'm'}", ENGINE.format("0.25.0"), "Using FLASHINFER backend.", ONEDNN, UP]
    second = ["non-default args: {'model': 'm'}", ENGINE.format("0.25.1"), UP]
    record = read_log([*first, *second])
    assert record["runtime_version"].value == "0.25.1"
    assert (record["runtime_version"].line_number, record["attention_backend"].state) == (7, State.ABSENT)
    assert record.fallbacks == ()


def test_ranks_that_disagree_are_kept_apart() -> None:
    said = "INFO 12-01 10:00:00 [a.py:1] Using {} attention backend out of potential backends: []"
    workers = ["(Worker_TP0 pid=1) " + said.format("FLASHINFER"), "(Worker_TP1 pid=2) " + said.format("TRITON_ATTN")]
    record = read_log(workers)
    assert record["attention_backend"].by_rank == {"TP0": "FLASHINFER", "TP1": "TRITON_ATTN"}


@pytest.mark.parametrize(
    ("line", "text", "level", "rank"),
    [
        ("plain", "plain", "", ""),
        ("INFO 06-27 14:10:22 metrics.py:341] done", "done", "INFO", ""),
        ("INFO 03-21 08:44:05 [config.py:1028] done", "done", "INFO", ""),
        ("(VllmWorker rank=5 pid=77) WARNING 03-21 08:44:05 [a.py:1] done", "done", "WARNING", "TP5"),
        ("(Worker_TP3_EP3 pid=77) INFO 03-21 08:44:05 [v1/a.py:1] done", "done", "INFO", "TP3"),
        (
            "\x1b[1;36m(Worker_TP0 pid=7)\x1b[0;0m INFO 03-21 08:44:05 [a.py:1] \x1b[32mdone\x1b[0m",
            "done",
            "INFO",
            "TP0",
        ),
        ('{"level": "warning", "message": "done"}', "done", "WARNING", ""),
        ("2026-12-01T10:00:00Z INFO 03-21 08:44:05 [a.py:1] done", "done", "INFO", ""),
        ("(APIServer pid=1) RuntimeError: x", "RuntimeError: x", "", ""),
    ],
)
def test_lines_of_every_form(line: str, text: str, level: str, rank: str) -> None:
    message = parse_line(line)
    assert (message.text, message.level, message.rank) == (text, level, rank)


@settings(max_examples=100)
@given(st.lists(st.text(max_size=200), max_size=20))
def test_no_text_crashes_the_reader(source: list[str]) -> None:
    read_log(source)
    diagnose_startup(source)


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=300), max_size=12), st.lists(st.integers(0, 30), max_size=5))
def test_no_bytes_crash_the_reader_and_broken_characters_hide_no_line(junk: list[bytes], places: list[int]) -> None:
    told = b"(Worker_TP0 pid=1) INFO 12-01 10:00:00 [a.py:1] Using V2 Model Runner"
    for place in places:
        junk.insert(place, told)
    record = read_chunks([b"\n".join(junk) + b"\n"])
    clean = [line for line in junk if line == told]
    assert record["model_runner"].value == ("v2" if clean else None) or b"\n" in b"".join(junk)


@settings(max_examples=60)
@given(st.data())
def test_lines_of_interleaved_ranks_give_one_record_whatever_their_order(data: st.DataObject) -> None:
    said = (
        "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER'].",
        "Using FlashInferCutlassNvFp4LinearKernel for NVFP4 GEMM",
        "Using V2 Model Runner",
        ONEDNN,
    )
    source = [
        f"(Worker_TP{rank} pid={90 + rank}) INFO 12-01 10:00:00 [a.py:1] {text}" for rank in range(4) for text in said
    ]
    record = read_log(data.draw(st.permutations(source)))
    assert record["attention_backend"].value == "FLASHINFER"
    assert record["linear_kernels"].value == "FlashInferCutlassNvFp4LinearKernel"
    assert all(not seen.by_rank for seen in record.fields.values())
    assert [fallback.ranks for fallback in record.fallbacks] == [("TP0", "TP1", "TP2", "TP3")]


def test_a_line_of_ten_megabytes_is_read_up_to_its_bound() -> None:
    for record in (
        read_log(["x" * 10_000_000, "Using V2 Model Runner"]),
        read_chunks([b"x" * 10_000_000, b"\nUsing V2 Model Runner\n"]),
    ):
        assert record["model_runner"].value == "v2"
        assert record["model_runner"].line_number == 2


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_way_to_die_is_told_by_its_line(fault: object) -> None:
    from vllm_gate.advisories.startup import StartupFault

    assert isinstance(fault, StartupFault)
    found = diagnose_startup(["INFO starting", fault.example])
    assert found is not None
    assert (found.name, found.died, found.line_number) == (fault.name, fault.fatal, 2)
    assert found.remedy


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("OSError: libnvrtc.so.13: cannot open shared object file: No such file or directory", "torchcodec_import"),
        ("ImportError: /opt/vllm/_C.abi3.so: undefined symbol: _ZN3c10", "abi_mismatch"),
        ("bash: line 1: 1234 Illegal instruction (core dumped) vllm serve", "illegal_instruction"),
        ("Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization", "out_of_gpu_memory"),
        ("RuntimeError: CUDA out of memory", "out_of_gpu_memory"),
        ("max seq len (8192) is larger than the available KV cache memory (0.4 GiB)", "kv_cache_too_small"),
        ("ValueError: There is no module or parameter named 'x' in LlamaForCausalLM", "weights_mismatch"),
        (
            "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig()",
            "no_attention_backend",
        ),
        ("huggingface_hub.errors.GatedRepoError: 403 Client Error", "gated_or_missing_model"),
        ("huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error", "gated_or_missing_model"),
        ("(EngineCore pid=7) ERROR 12-01 10:00:00 [core.py:1] EngineCore failed to start.", "engine_died"),
        ("(Worker_TP1 pid=7) ERROR 12-01 10:00:00 [x.py:1] WorkerProc failed to start.", "engine_died"),
        ("SystemExit: 1", "unknown_error"),
        ("KeyboardInterrupt: ", "unknown_error"),
        ("torch.AcceleratorError: CUDA error: an illegal memory access", "unknown_error"),
    ],
)
def test_other_words_of_the_same_deaths_are_found_among_lines_of_a_server_at_work(line: str, name: str) -> None:
    found = diagnose_startup(['INFO:     127.0.0.1:4242 - "GET /health HTTP/1.1" 503', line, "INFO x"])
    assert found is not None
    assert (found.name, found.line_number) == (name, 2)


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
