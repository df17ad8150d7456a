"""`docker run` and `docker rm`, as far as the serve action goes: `vllm-gate simulate` is the container.

It takes two seconds to start, and has the original fault unless the fusion is off; at TP=1 the fault does no harm.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

START_S = 2
FUSION_OFF = "-cc.pass_config.fuse_allreduce_rms=false"


def main(command: str, words: list[str], folder: Path) -> int:
    if command == "rm":
        for running in folder.glob(f"{words[-1]}.pid"):
            os.killpg(int(running.read_text()), signal.SIGKILL)
            running.unlink()
        return 0
    name = _after(words, "--name")
    simulate = [sys.executable, "-m", "vllm_gate", "simulate"]
    simulate += ["--port", _after(words, "--publish").split(":")[1], "--tp", _after(words, "--tensor-parallel-size")]
    simulate += ["--log", str(folder / f"{name}.log")] + ([] if FUSION_OFF in words else ["--fault", "fp32_as_bf16"])
    started = subprocess.Popen(
        ["sh", "-c", f'sleep {START_S}; exec "$@"', "vllm", *simulate],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    (folder / f"{name}.pid").write_text(str(started.pid))
    with (folder / "started").open("a") as log:
        log.write(" ".join(words) + "\n")
    return 0


def _after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:], Path(os.environ["CONTAINERS"])))
