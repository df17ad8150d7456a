"""What is deployed and not gated: the faults that no run would see."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_gate.path.record import ExecutionPath, State


def uncovered(matrix: Mapping[str, object], record: ExecutionPath, asked: frozenset[str]) -> tuple[str, ...]:
    """Sentences, each a gap. `asked` holds what the settings ask: golden, numerical, tp_variants, long_context,
    tools, prefix_cache, log.
    """
    tp = record["parallelism_tp"].value or str(matrix.get("parallelism_tp", "1"))
    quantization = record["quantization"].value or str(matrix.get("quantization", ""))
    gaps = []
    if not asked & {"golden", "numerical"}:
        gaps.append("only liveness is asked: a server that answers garbage with HTTP 200 would pass (gates 2 and 3)")
    if tp not in ("1", "") and "tp_variants" not in asked:
        gaps.append(f"TP={tp} is deployed, but not compared with TP=1 (compare_tp_variants)")
    if quantization not in ("", "None") and "numerical" not in asked:
        gaps.append(f"{quantization} is deployed, but its numbers are not compared (gate 2)")
    if record["speculative_decoding"].state is State.OBSERVED and record["speculative_decoding"].value != "None":
        gaps.append("speculative decoding is on: compare a capture with it and one without it")
    if record["prefix_caching"].value == "True" and "prefix_cache" not in asked:
        gaps.append("prefix caching is on, but not checked (gate 4)")
    if "tools" not in asked:
        gaps.append("tool calls are not checked (gate 4)")
    if record["enforce_eager"].value == "True" and record["device"].value != "cpu":
        gaps.append("enforce_eager is on: a workaround that costs speed, and hides faults of graphs and fusions")
    return tuple(gaps)
