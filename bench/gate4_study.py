"""Gate 4 on simulated servers: false alarms, which fault is told how, what it costs, what a prompt costs to build.

    bench/run gate4_study

Writes bench/results/gate4_study.json. Healthy runs ask a TP=4 release against a TP=1 baseline of the same weights,
other weights and other texts each time, at the lengths of the example. The cost is the gate's own time over that of a
client which sends the same requests at the same concurrency and does nothing else (bench/replay.py); the server is a
process of its own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from bench.replay import recording, replay

from vllm_gate.app.observers import Quiet
from vllm_gate.app.run import Clock
from vllm_gate.app.runner import Selection, run_gates
from vllm_gate.app.services import connect_all
from vllm_gate.config.plan import Gates, LongContextSettings, Plan, ServiceConfig
from vllm_gate.core.report import GateResult
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.capability.long_prompt import build
from vllm_gate.gates.interface import Context
from vllm_gate.gates.long_context import LongContext
from vllm_gate.judge.rates import rate
from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings
from vllm_gate.simulator.tokenizer import tokenizer

HERE = Path(__file__).parent
EXAMPLE = LongContextSettings()
WINDOW = 40_960
"""More than the longest length: at exactly 32,768 the answer would have no room."""
HEALTHY_RUNS = int(os.environ.get("HEALTHY_RUNS", "100"))
REPEATS = 9
PROMPTS = 100
FAULTS = (
    "needle_lost_after:8000",
    "garbage_beyond:10000",
    "edge_off_by_one:4096",
    "json_truncated",
    "json_trailing_spaces",
    "schema_ignored",
    "int_as_string",
    "arg_dropped_in_stream",
    "call_in_text",
    "parallel_merged",
    "cache_stale_block",
    "cache_never_hits",
    "salt_ignored",
)


def gate_4(roots: Mapping[str, str], seed: int, settings: LongContextSettings = EXAMPLE) -> GateResult:
    """One run of the gate in this process."""
    model = SimulatorSettings().model
    services = {name: ServiceConfig(name=name, base_url=f"{root}/v1", model=model) for name, root in roots.items()}
    plan = Plan(services=services, gates=Gates(long_context=settings))
    context = Context(
        plan=plan,
        services=connect_all(plan, None),
        log=None,
        progress=lambda *_, **__: None,
        now=Clock().now,
        sleep=Clock().sleep,
        rng=np.random.default_rng(seed),
    )
    (result,) = run_gates(Selection((LongContext(),), {}), context, Quiet(), Clock().now)
    return result


def served(settings: SimulatorSettings) -> Simulator:
    return Simulator(replace(settings, max_model_len=WINDOW))


def root_of(simulator: Simulator) -> str:
    return f"http://127.0.0.1:{simulator.port}"


def healthy() -> dict[str, object]:
    """Verdicts of healthy runs, and what any finding that did not pass said."""
    verdicts: list[str] = []
    alarms: list[str] = []
    warnings: list[str] = []
    for seed in range(HEALTHY_RUNS):
        release, baseline = SimulatorSettings(tp=4, seed=seed), SimulatorSettings(tp=1, seed=seed)
        with served(release) as one, served(baseline) as other:
            result = gate_4({"under_test": root_of(one), "baseline": root_of(other)}, seed)
        verdicts.append(result.verdict.value)
        alarms += [f"{seed}: {f.check}: {f.message}" for f in result.findings if f.verdict is not Verdict.PASS]
        warnings += [f"{seed}: {f.check}: {f.warning}" for f in result.findings if f.warning]
        print(f"healthy run {seed}: {result.verdict.value} after {result.duration_s:.1f} s", flush=True)
    alarmed = len(verdicts) - verdicts.count("pass")
    return {
        "runs": len(verdicts),
        "passed": verdicts.count("pass"),
        "false_alarm_rate_at_most": round(rate(alarmed, len(verdicts)).interval.high, 4),
        "alarms": alarms,
        "warnings": warnings,
    }


def faults() -> dict[str, list[str]]:
    """For each fault, every finding that did not pass: its check and symptom."""
    told = {}
    for fault in FAULTS:
        with served(SimulatorSettings(tp=4, faults=(fault,))) as one, served(SimulatorSettings(tp=1)) as other:
            result = gate_4({"under_test": root_of(one), "baseline": root_of(other)}, 1)
        told[fault] = [
            f"{f.verdict.value}: {f.check}: {f.symptom}"
            for f in result.findings
            if f.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)
        ]
        print(f"{fault}: {told[fault]}", flush=True)
    return told


def _serve(port: Connection) -> None:
    with served(SimulatorSettings(tp=4)) as simulator:
        port.send(simulator.port)
        port.recv()


@contextmanager
def _in_its_own_process() -> Iterator[str]:
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        ours.send("stop")
        process.join(10)


def cost() -> dict[str, object]:
    """The gate's time over that of the same requests, run by run in turn."""
    with _in_its_own_process() as root:
        with recording(root) as (proxies, sent):
            recorded = gate_4({"under_test": proxies[0]}, 0)
        runs, replays = [], []
        for number in range(REPEATS):
            runs.append(_seconds(lambda: gate_4({"under_test": root}, 0)))
            replays.append(replay(sent, run=number))
            print(f"run {runs[-1]:.2f} s, its requests alone {replays[-1]:.2f} s", flush=True)
    return {
        "requests": len(sent),
        "run_s": [round(one, 2) for one in runs],
        "replay_s": [round(one, 2) for one in replays],
        "ratio_of_totals": round(sum(runs) / sum(replays), 3),
        "median_ratio": round(statistics.median(a / b for a, b in zip(runs, replays, strict=True)), 3),
        "verdict": recorded.verdict.value,
        "per_length": recorded.facts["context"],
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def tokenizer_calls() -> dict[str, object]:
    """Calls to build one prompt of 32,768 tokens with facts of its own each time."""
    calls: list[int] = []
    exact = 0

    def count(messages: Sequence[Mapping[str, object]]) -> int:
        calls[-1] += 1
        return len(tokenizer().chat(messages))

    for seed in range(PROMPTS):
        calls.append(0)
        exact += build(32_768, count, np.random.default_rng(seed)).tokens == 32_768
    return {"prompts": PROMPTS, "exact": exact, "most": max(calls), "mean": round(statistics.mean(calls), 2)}


def main() -> None:
    """All parts, or those that the environment's PARTS names; earlier figures of the others are kept."""
    parts = {"tokenizer_calls": tokenizer_calls, "cost": cost, "faults": faults, "healthy": healthy}
    wanted = os.environ.get("PARTS", ",".join(parts)).split(",")
    path = HERE / "results" / "gate4_study.json"
    path.parent.mkdir(exist_ok=True)
    result = json.loads(path.read_text()) if path.exists() else {}
    for name in wanted:
        started = time.perf_counter()
        result[name] = parts[name]()
        result[name]["seconds"] = round(time.perf_counter() - started, 1)  # type: ignore[index]
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps({name: result[name]}, indent=1), flush=True)


if __name__ == "__main__":
    main()
