"""Start a real vLLM on a free loopback port, wait until it answers, and always stop all of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.lab.install import Lab

MODEL_NAME = "smollm2"
READY_WITHIN_S = 420.0
"""TP=3 on two busy cores has taken three minutes."""
DTYPE = "bfloat16" if "avx512_bf16" in Path("/proc/cpuinfo").read_text() else "float32"
"""Of weights and activations. A CPU without instructions for BF16 reads a prompt five times as fast in FP32."""
_OPTIONS = (
    *("--served-model-name", MODEL_NAME),
    *("--max-model-len", "8192", "--max-num-seqs", "16", "--enforce-eager", "--dtype", DTYPE),
    *("--enable-prompt-tokens-details", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
)
_ENVIRONMENT: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # One thread a worker and all traffic on loopback: several servers share few cores, and nothing leaves the machine.
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # Bytecode is kept, or each of a server's processes compiles tens of thousands of lines anew: half a minute.
    "PYTHONDONTWRITEBYTECODE": "",
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
}


@dataclass(frozen=True, slots=True)
class Server:
    """A vLLM that answers. `ready_s` is the time from its start to the first token."""

    root: str
    log: Path
    tp: int
    ready_s: float

    @property
    def base_url(self) -> str:
        """By the OpenAI convention."""
        return f"{self.root}/v1"


@contextmanager
def serving(lab: Lab, log: Path, *, tp: int = 1, fault: str = "") -> Iterator[Server]:
    """A server that has generated a token. Raises RuntimeError with the log's end if it dies or takes too long."""
    port = _free_port()
    what = f"vLLM {lab.version} TP={tp} {fault or 'healthy'}"
    print(f"\ne2e: {what}: starting, log in {log}", file=sys.stderr, flush=True)
    start = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            _command(lab, port, tp),
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_ENVIRONMENT, "VLLM_GATE_FAULT": fault},
            start_new_session=True,
        )
    try:
        root = f"http://127.0.0.1:{port}"
        _wait(process, root, log)
        answered_s = time.monotonic() - start
        _generate_one_token(root)
        server = Server(root, log, tp, time.monotonic() - start)
        took = f"/health after {answered_s:.0f} s, first token after {server.ready_s:.0f} s"
        print(f"e2e: {what}: {took}", file=sys.stderr, flush=True)
        yield server
    finally:
        _stop(process)


def _command(lab: Lab, port: int, tp: int) -> list[str]:
    where = ("--host", "127.0.0.1", "--port", str(port))
    return [str(lab.venv / "bin/vllm"), "serve", str(lab.model), *_OPTIONS, *where, "--tensor-parallel-size", str(tp)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], root: str, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not _healthy(root):
        if process.poll() is not None:
            raise RuntimeError(f"vLLM ended with code {process.returncode}:\n{_end_of(log)}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"vLLM is not ready after {READY_WITHIN_S:.0f} s:\n{_end_of(log)}")
        time.sleep(0.5)


def _healthy(root: str) -> bool:
    try:
        with urllib.request.urlopen(f"{root}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _generate_one_token(root: str) -> None:
    """The first forward pass compiles kernels, for up to half a minute: not to be measured as an answer."""
    body = f'{{"model": "{MODEL_NAME}", "prompt": "Hello", "max_tokens": 1}}'
    request = urllib.request.Request(f"{root}/v1/completions", body.encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=READY_WITHIN_S).close()


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """The whole process group: vLLM's workers outlive an API server that is killed."""
    for sign, patience_s in ((signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + patience_s
        while _alive(process) and time.monotonic() < deadline:
            time.sleep(0.1)
    process.wait(timeout=10)


def _alive(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True
