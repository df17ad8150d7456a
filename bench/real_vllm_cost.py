"""What gates cost on a real vLLM: their time over the server's own time for the same requests.

    bench/run real_vllm_cost

Each set of gates is run once through a recording proxy, which also warms every cache. Then runs of the command line
(process start included) alternate with replays of its requests by a client that does nothing else: the same order,
the same concurrency, no thinking. The ratio is that of the two totals.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.replay import Sent, recording, replay
from tests.e2e.gate import SETTINGS, command
from tests.e2e.lab.install import REPOSITORY, Lab, install
from tests.e2e.lab.serve import MODEL_NAME, serving


@dataclass(frozen=True, slots=True)
class Case:
    """A set of gates, how many servers it asks, how often it is run, and the ratio that it must keep."""

    gates: str
    servers: int
    repeats: int
    limit: float


CASES = (Case("1,3", 1, 5, 1.15), Case("2", 2, 2, 1.10))
_GATE_2 = """{"gate_config": {"gate_2_numerical": {"prompts": 64, "max_prompts": 64, "positions": 64}}}"""


def main() -> int:
    """Print a table; 1 where a limit is broken."""
    lab = Lab(REPOSITORY / ".lab")
    install(lab)
    folder = Path(tempfile.mkdtemp(prefix="vllm-gate-bench-"))
    print("| gates | servers | requests | run, s | server alone, s | ratio | limit |\n|---|---|---|---|---|---|---|")
    worst = 0.0
    with serving(lab, folder / "first.log") as first, serving(lab, folder / "second.log") as second:
        for case in CASES:
            roots = [first.root, second.root][: case.servers]
            sent, runs, replays = _measure(case, roots, folder)
            ratio = sum(runs) / sum(replays)
            worst = max(worst, ratio / case.limit)
            times = " | ".join(f"{sum(times) / len(times):.1f}" for times in (runs, replays))
            print(f"| {case.gates} | {case.servers} | {len(sent)} | {times} | {ratio:.3f} | {case.limit} |", flush=True)
    return int(worst > 1)


def _measure(case: Case, roots: Sequence[str], folder: Path) -> tuple[list[Sent], list[float], list[float]]:
    with recording(*roots) as (proxies, sent):
        _run(case, proxies, folder)
    runs, replays = [], []
    for number in range(case.repeats):
        runs.append(_run(case, roots, folder))
        replays.append(replay(sent, run=number))
    return sent, runs, replays


def _run(case: Case, roots: Sequence[str], folder: Path) -> float:
    """Seconds of one run of the command line."""
    names = ("under_test", "baseline")
    tables = (
        f'[service.{name}]\nbase_url = "{root}/v1"\nmodel = "{MODEL_NAME}"\n'
        for name, root in zip(names, roots, strict=False)
    )
    (folder / "config.toml").write_text("".join(tables))
    settings = SETTINGS / "settings.json"
    if case.gates == "2":
        settings = folder / "settings.json"
        settings.write_text(_GATE_2)
    files = ("--settings", settings, "--config", folder / "config.toml", "--report-dir", folder)
    done, seconds = command("run", "--gates", case.gates, *files)
    if done.returncode:
        sys.exit(f"the run itself ended with {done.returncode}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
