"""Gate 2 on a real vLLM: what each server's drift from healthy TP=1 is, run by run, and the verdict.

    bench/run real_vllm_drift

Healthy TP=1 is captured once and then stands for the baseline. Each variant is started once and judged by the command
line with the tolerances of the example, as often as the table below says, with fresh samples of noise each time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.gate import SETTINGS, Outcome, command, run, service
from tests.e2e.lab.install import REPOSITORY, Lab, install
from tests.e2e.lab.serve import Server, serving

RUNS = {(1, ""): 5, (3, ""): 5, (1, "noise:0.01"): 3, (1, "noise:0.05"): 1, (3, "fp32_as_bf16"): 1}
"""Tensor-parallel size and fault, and how often it is judged."""
GATE_2 = "gate_2_numerical"
COLUMNS = ("drift", "95 % interval", "p99", "max", "KL", "weighted, nats", "ln PPL ratio", "same texts", "verdict")


def main() -> None:
    """Print a table."""
    lab = Lab(REPOSITORY / ".lab")
    install(lab)
    folder = Path(tempfile.mkdtemp(prefix="vllm-gate-bench-"))
    with serving(lab, folder / "baseline.log") as healthy:
        capture = _captured(healthy, folder)
    print("| server | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|", flush=True)
    for (tp, fault), times in RUNS.items():
        with serving(lab, folder / "vllm.log", tp=tp, fault=fault) as server:
            for _ in range(times):
                row = _row(_judged(server, capture, folder))
                print(f"| {fault or 'healthy'} TP={tp} | " + " | ".join(row) + " |", flush=True)


def _captured(server: Server, folder: Path) -> Path:
    (folder / "config.toml").write_text(service("under_test", server))
    out = folder / "tp1.capture"
    files = ("--settings", SETTINGS / "settings.json", "--config", folder / "config.toml", "--out", out)
    command("capture", *files)
    return out


def _judged(server: Server, capture: Path, folder: Path) -> Outcome:
    return run(server, folder, gates="2", config=f'\n[service.baseline]\nsnapshot = "{capture}"\n')


def _row(outcome: Outcome) -> list[str]:
    (gate,) = (gate for gate in outcome.report["gates"] if gate["gate"] == GATE_2)
    findings: Mapping[str, Any] = {finding["check"]: finding for finding in gate["findings"]}
    facts = gate["facts"].get("drift")
    if not facts:
        return [*["-"] * (len(COLUMNS) - 1), f"{gate['verdict']}: {findings['nan_inf']['symptom']}"]
    interval, tv = findings["logit_drift"]["interval"], facts["prefill"]["total_variation"]
    return [
        f"{tv['mean']:.4f}",
        f"{interval['low']:.4f} to {interval['high']:.4f}",
        f"{tv['p99']:.3f}",
        f"{tv['max']:.3f}",
        f"{facts['prefill']['kl']['mean']:.4f}",
        f"{facts['prefill']['weighted_logprob']['mean']:.4f}",
        f"{facts['perplexity_ln_ratio']:+.4f}",
        f"{facts['same_texts']} of {facts['texts']}",
        str(gate["verdict"]),
    ]


if __name__ == "__main__":
    main()
