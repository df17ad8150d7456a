"""What else than the log tells of the execution path: the server's endpoints, its answers, the machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vllm_gate.path.record import ExecutionPath, Observation, State, canonical
from vllm_gate.path.rules import COMPILE_MODES, GRAPH_MODES

_SERVER_INFO: tuple[tuple[str, str, str], ...] = (
    ("model_config", "dtype", "dtype_activation"),
    ("model_config", "quantization", "quantization"),
    ("model_config", "max_model_len", "max_model_len"),
    ("model_config", "enforce_eager", "enforce_eager"),
    ("parallel_config", "tensor_parallel_size", "parallelism_tp"),
    ("parallel_config", "pipeline_parallel_size", "parallelism_pp"),
    ("parallel_config", "data_parallel_size", "parallelism_dp"),
    ("parallel_config", "decode_context_parallel_size", "parallelism_dcp"),
    ("parallel_config", "disable_custom_all_reduce", "custom_allreduce_disabled"),
    ("cache_config", "cache_dtype", "dtype_kv_cache"),
    ("cache_config", "enable_prefix_caching", "prefix_caching"),
    ("scheduler_config", "enable_chunked_prefill", "chunked_prefill"),
    ("load_config", "load_format", "load_format"),
)
"""Section and key of `vllm_config` in `/server_info?config_format=json`, and the field they tell."""
_FINGERPRINT = re.compile(r"^vllm-(?P<version>\d[^-]*)(?P<sizes>(?:-[a-z]{2}\d*)*)-(?:[0-9a-f]{8}|nohash)$")
_GPU = re.compile(r"^GPU \d+: (.+?)(?: \(UUID.*)?$")


@dataclass(frozen=True, slots=True)
class Reported:
    """Facts that one source tells, by field."""

    source: str
    facts: Mapping[str, str]


def from_version(version: str | None) -> Reported:
    """`/version`. The part after `+` names a build, not a release, and is kept as the log keeps it."""
    return Reported("/version", {"runtime_version": version} if version else {})


def from_fingerprint(fingerprint: str) -> Reported:
    """`system_fingerprint` of an answer: `vllm-0.32.0-tp4-1a2b3c4d`. Any other form tells nothing."""
    form = _FINGERPRINT.match(fingerprint)
    if not form:
        return Reported("system_fingerprint", {})
    sizes = dict(re.findall(r"-(tp|pp|dp)(\d+)", form["sizes"]))
    facts = {f"parallelism_{kind}": sizes.get(kind, "1") for kind in ("tp", "pp", "dp")}
    # `--fingerprint-mode hash` leaves the sizes out, so that none at all says nothing.
    return Reported("system_fingerprint", {"runtime_version": form["version"], **(facts if form["sizes"] else {})})


def from_server_info(info: Mapping[str, object] | None) -> Reported:
    """`/server_info?config_format=json` of a server in development mode. Unknown shapes tell nothing."""
    config = _mapping(info, "vllm_config")
    facts = {
        name: str(section[key])
        for part, key, name in _SERVER_INFO
        if key in (section := _mapping(config, part)) and isinstance(section[key], str | int | None)
    }
    device = _mapping(config, "device_config").get("device_type")
    if isinstance(device, str):
        facts["device"] = device
    facts |= _compilation(_mapping(config, "compilation_config"))
    machine = _mapping(info, "system_env")
    if isinstance(version := machine.get("vllm_version"), str):
        facts["runtime_version"] = version.split()[0] if version.split() else version
    if isinstance(gpus := machine.get("nvidia_gpu_models"), str):
        facts |= from_devices(gpus).facts
    return Reported("/server_info", facts)


def from_devices(listing: str) -> Reported:
    """GPU names, one a line: `nvidia-smi -L`, or `nvidia-smi --query-gpu=name --format=csv,noheader`."""
    names = Counter(
        listed[1] if (listed := _GPU.match(line.strip())) else line.strip()
        for line in listing.splitlines()
        if line.strip()
    )
    told = ", ".join(f"{count} x {name}" for name, count in sorted(names.items()))
    return Reported("devices", {"hardware": told} if told else {})


def merge(record: ExecutionPath, reported: Iterable[Reported]) -> ExecutionPath:
    """The record with what other sources tell of fields that the log leaves open, and what they contradict.

    The log stays the proof of its own fields: a source that tells another value makes a disagreement, most often
    because the log is that of another server.
    """
    fields = dict(record.fields)
    disagreements = list(record.disagreements)
    for one in reported:
        for name, told in one.facts.items():
            value = canonical(name, told)
            seen = fields.get(name, Observation(state=State.UNKNOWN))
            if seen.state is not State.OBSERVED:
                fields[name] = Observation(state=State.OBSERVED, value=value, line=f"{name} {told}", source=one.source)
            elif not _same(name, seen.value or "", value):
                disagreements.append(f"{name} is {seen.value} by the {seen.source} and {value} by {one.source}")
    return replace(record, fields=fields, disagreements=tuple(disagreements))


def _same(name: str, first: str, second: str) -> bool:
    if name == "runtime_version":
        return first.partition("+")[0] == second.partition("+")[0]
    return first == second


def _compilation(config: Mapping[str, Any]) -> dict[str, str]:
    facts = {}
    if isinstance(mode := config.get("mode"), int) and mode in COMPILE_MODES:
        facts["compile_mode"] = COMPILE_MODES[mode]
    graphs = config.get("cudagraph_mode")
    key = tuple(graphs) if isinstance(graphs, list) else (graphs,)
    if all(isinstance(part, int) for part in key) and key in GRAPH_MODES:
        facts["cudagraph_mode"] = GRAPH_MODES[key]
    # vLLM's own list of fusions is made in the same way: the switches by their names without the prefix.
    switches = _mapping(config, "pass_config")
    enabled = [
        name.removeprefix("fuse_").removeprefix("enable_")
        for name, value in switches.items()
        if value is True and name.startswith(("fuse_", "enable_"))
    ]
    return facts | ({"fusions": ", ".join(enabled)} if enabled else {})


def _mapping(value: object, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}
