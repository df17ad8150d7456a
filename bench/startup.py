"""How long the command takes to start: `vllm-gate --version` over `python -c "import requests"`, in turn.

bench/run startup          # exit 1 when the ratio of the medians is above 1.3
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

LIMIT, ROUNDS = 1.3, 21


def seconds(command: Sequence[str]) -> float:
    """One run of a command."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> int:
    """Print both medians and their ratio."""
    ours = [str(Path(sys.executable).parent / "vllm-gate"), "--version"]
    theirs = [sys.executable, "-c", "import requests"]
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(ROUNDS)]
    own, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"vllm-gate --version {own * 1000:.0f} ms, import requests {other * 1000:.0f} ms, ratio {own / other:.2f}")
    return int(own / other > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
