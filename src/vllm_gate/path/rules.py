"""From a log message to a field of the record: one table, one row a message.

Patterns match on the message's text alone; level and module move between releases. To teach the gate a new message,
add a row: its example and near miss are tests already.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row.

    `pattern` matches from the message's start on; its first group that took part is the value, or `value` where the
    message has none. `needle` is a text of four or more characters that every such message holds; a line without any
    needle is not looked at (`scan` says which needles are slow). `example` is the message as vLLM words it from release
    `since` on (up to `until`, where it is gone), `near_miss` one that looks alike and must not match. `many` collects
    all distinct values; without it the last value of a speaker counts. `debug`: told at DEBUG only, so its absence says
    nothing in an INFO log. `compiling`: told while compiling, so its absence says nothing when graphs came from a
    cache.
    """

    field: str
    pattern: str
    needle: str
    example: str
    near_miss: str
    since: str = "0.11"
    until: str = ""
    value: str = ""
    many: bool = False
    debug: bool = False
    compiling: bool = False


ENGINE_LINE = re.compile(
    r"Initializing a V1 LLM engine \(v(?P<version>[^)]+)\) with config: (?P<config>.*)$", re.DOTALL
)
ENGINE_FIELDS: dict[str, str] = {
    "model": "model",
    "dtype": "dtype_activation",
    "tensor_parallel_size": "parallelism_tp",
    "pipeline_parallel_size": "parallelism_pp",
    "data_parallel_size": "parallelism_dp",
    "decode_context_parallel_size": "parallelism_dcp",
    "quantization": "quantization",
    "enforce_eager": "enforce_eager",
    "kv_cache_dtype": "dtype_kv_cache",
    "device_config": "device",
    "enable_prefix_caching": "prefix_caching",
    "enable_chunked_prefill": "chunked_prefill",
    "chunked_prefill_enabled": "chunked_prefill",
    "speculative_config": "speculative_decoding",
    "disable_custom_all_reduce": "custom_allreduce_disabled",
    "load_format": "load_format",
}
"""Keys of the engine's line to fields of the record; `chunked_prefill_enabled` is the key of releases up to 0.11."""
INSIDE_ENGINE = (
    ("compile_mode", re.compile(r"""['"](?:mode|level)['"]: ?(?:<CompilationMode\.(\w+): \d+>|(\d+))""")),
    ("cudagraph_mode", re.compile(r"""['"]cudagraph_mode['"]: ?(?:<CUDAGraphMode\.(\w+):|(\d+|\[\d+, ?\d+\]))""")),
    ("requested_moe_backend", re.compile(r"\bmoe_backend='(\w+)'")),
    ("requested_linear_backend", re.compile(r"\blinear_backend='(\w+)'")),
)
"""What is read out of the nested values of the engine's line, which releases up to 0.11 print as JSON."""
COMPILE_MODES = {0: "NONE", 1: "STOCK_TORCH_COMPILE", 2: "DYNAMO_TRACE_ONCE", 3: "VLLM_COMPILE"}
GRAPH_MODES = {
    (0,): "NONE",
    (1,): "PIECEWISE",
    (2,): "FULL",
    (2, 0): "FULL_DECODE_ONLY",
    (2, 1): "FULL_AND_PIECEWISE",
}
"""Names of the modes that JSON tells by number: the one of decoding first, then that of mixed batches."""
ATTENTION_NAMES = {"FLASH_ATTENTION": "FLASH_ATTN", "TRITON": "TRITON_ATTN", "FLEXATTENTION": "FLEX_ATTENTION"}
"""What releases up to 0.15 call an attention backend, and what later ones do."""

RUNS_ARGUMENTS = "non-default args: "
"""The first message of a start: a log that holds it again is the log of a server that was started again."""
UP = re.compile(
    r"Application startup complete|Starting vLLM (?:API )?server|init engine \(profile|Available routes are"
)
"""Messages of a server that has chosen its path. Before one of them, what is not said may still come."""
WARM_CACHE = re.compile(r"Directly load (?:the compiled graph|AOT compilation)")
"""Graphs came from a cache, so the passes that report fusions did not run."""
NEEDLES = (
    "Initializing a V1 LLM",
    RUNS_ARGUMENTS,
    "Application startup",
    "Starting vLLM",
    "init engine",
    "Available routes",
    "Directly load",
)
"""Texts of the messages that are read by more than one row."""
