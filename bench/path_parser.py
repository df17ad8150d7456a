"""How fast, and in how much memory, the startup log of a server that ran for a week is read, beside `grep -c -E`.

The log is a real startup log, then access and engine-statistics lines. It is made in a temporary folder and not kept.

bench/run path_parser      # exit 1 below 150 MB/s and below half of grep's speed, or when memory grows with the log
"""

from __future__ import annotations

import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vllm_gate.app.logs import FileLog
from vllm_gate.path.fallbacks import VOCABULARY
from vllm_gate.path.record import read_chunks
from vllm_gate.path.rules import NEEDLES
from vllm_gate.path.table import RULES

LEAST_MB_S, LEAST_OF_GREP, MOST_GROWTH = 150.0, 0.5, 1.1
SMALL_MB, LARGE_MB, ROUNDS = 100, 1000, 3
START = Path(__file__).parent.parent / "tests" / "path" / "logs" / "vllm-0.32.0-cpu-tp3.log"
SERVING = (
    '(APIServer pid=1) INFO:     10.0.7.{0}:41{0:03d} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    "(APIServer pid=1) INFO 12-01 10:{1:02d}:{2:02d} [loggers.py:257] Engine 000: Avg prompt throughput: 91{0}.4 "
    "tokens/s, Avg generation throughput: 34{2}.0 tokens/s, Running: {1} reqs, Waiting: {2} reqs, GPU KV cache usage: "
    "{1}.3%, Prefix cache hit rate: {2}.1%\n"
    '(APIServer pid=1) INFO:     10.0.7.{0}:52{0:03d} - "GET /metrics HTTP/1.1" 200 OK\n'
)


def write(path: Path, megabytes: int) -> None:
    """A log of that size: the start, then lines of a server at work."""
    day = "".join(SERVING.format(n % 251, n // 60 % 60, n % 60) for n in range(3600)).encode()
    with path.open("wb") as log:
        log.write(START.read_bytes())
        while log.tell() < megabytes * 1_000_000:
            log.write(day)


def read(path: Path) -> None:
    """Read a log as the product does, and tell the seconds and the process's peak memory in MiB."""
    started = time.process_time()
    record = read_chunks(FileLog(path).chunks())
    seconds = time.process_time() - started
    if record["parallelism_tp"].value != "3" or len(record.fallbacks) < 3:
        raise SystemExit("the record is wrong")
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measured(path: Path) -> tuple[float, float]:
    """Median seconds and the peak memory of processes that each read the log once."""
    command = [sys.executable, "-m", "bench.path_parser", str(path)]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() for _ in range(ROUNDS)]
    return statistics.median(float(run[0]) for run in runs), max(float(run[1]) for run in runs)


def grep(path: Path) -> float:
    """Median processor seconds of `LC_ALL=C grep -c -E` with an alternation of the same texts."""
    needles = dict.fromkeys([*NEEDLES, *(rule.needle for rule in RULES), *(needle for needle, _ in VOCABULARY)])
    alternation = "|".join(re.escape(needle) for needle in needles)
    seconds = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            ["grep", "-c", "-E", alternation, str(path)], env={"LC_ALL": "C"}, check=True, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(seconds)


def main() -> int:
    """Print the speed of both on the large log, and the peak memory at both sizes."""
    with tempfile.TemporaryDirectory(prefix="vllm-gate-bench-") as folder:
        small, large = Path(folder) / "small.log", Path(folder) / "large.log"
        write(small, SMALL_MB)
        write(large, LARGE_MB)
        _, small_peak = measured(small)
        seconds, large_peak = measured(large)
        greps = grep(large)
    ours, theirs = LARGE_MB / seconds, LARGE_MB / greps
    print(f"read {ours:.0f} MB/s, grep -c -E {theirs:.0f} MB/s, ratio {ours / theirs:.2f} (processor time, one core)")
    print(f"peak memory {small_peak:.0f} MiB at {SMALL_MB} MB, {large_peak:.0f} MiB at {LARGE_MB} MB")
    slow = ours < LEAST_MB_S and ours < LEAST_OF_GREP * theirs
    return int(slow or large_peak > MOST_GROWTH * small_peak)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        read(Path(sys.argv[1]))
    else:
        raise SystemExit(main())
