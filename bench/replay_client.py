"""Requests a second of the canary's client, of `vllm bench serve` and of guidellm, on a server that costs nothing.

bench/run replay_client    # installs the vLLM of `make e2e` and guidellm (9 GB together) where they are missing

16 requests at a time, the same prompts, the clients one after the other, twice. The others stream, as is their default;
the canary asks for whole answers, as it always does. Prints where the canary's client spends its time.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import subprocess
import tempfile
import time
import venv
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.noop_server import MODEL, noop_server
from tests.e2e.lab.install import REPOSITORY, Lab, install

from vllm_gate.server.connect import connect
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Reply
from vllm_gate.traffic.request import CHAT

REQUESTS, AT_A_TIME, ROUNDS = 4_000, 16, 2
LAB = Lab(REPOSITORY / ".lab")
GUIDELLM = LAB.root / "guidellm"
LAYERS = ("vllm_gate/server/openai_api", "urllib3/poolmanager", "http/client")


def prompts() -> list[str]:
    """Some fifty tokens each."""
    return [
        f"Question {number}: " + "what is alive and right here, and what is not? " * 4 for number in range(REQUESTS)
    ]


def canary(root: str, _data: Path, _out: Path) -> float:
    """What gate 5 asks both sides with."""
    service = _connected(root)
    started = time.perf_counter()
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        answers = list(threads.map(lambda prompt: _ask(service, prompt), prompts()))
    seconds = time.perf_counter() - started
    assert all(isinstance(answer, Reply) and answer.finish_reason == "stop" for answer in answers)
    return REQUESTS / seconds


def vllm_bench(root: str, data: Path, out: Path) -> float:
    """`vllm bench serve`, by its own clock."""
    found = _run(
        out,
        *(LAB.venv / "bin/vllm", "bench", "serve", "--backend", "openai-chat", "--endpoint", CHAT, "--base-url", root),
        *("--model", MODEL, "--skip-tokenizer-init", "--skip-chat-template", "--disable-tqdm"),
        *("--dataset-name", "custom", "--dataset-path", data, "--num-prompts", REQUESTS),
        *("--max-concurrency", AT_A_TIME, "--save-result", "--result-dir", out.parent, "--result-filename", out.name),
    )
    assert found["completed"] == REQUESTS
    return float(found["request_throughput"])


def guidellm(root: str, data: Path, out: Path) -> float:
    """From its first request to its last."""
    (found,) = _run(
        out,
        *(GUIDELLM / "bin/guidellm", "run", "--backend", f"kind=openai_http,target={root},model={MODEL}"),
        *("--profile", f"kind=concurrent,streams={AT_A_TIME}", "--constraint", f"kind=max_requests,count={REQUESTS}"),
        *("--data", f"kind=json_file,path={data}", "--disable-console", "--output", f"kind=json,path={out}"),
    )["benchmarks"]
    clock = found["scheduler_metrics"]
    assert clock["requests_made"]["successful"] == REQUESTS
    return REQUESTS / float(clock["measure_end_time"] - clock["measure_start_time"])


CLIENTS = {"vllm-gate": canary, "vllm bench serve": vllm_bench, "guidellm": guidellm}


def where_time_goes(root: str) -> Mapping[str, float]:
    """Shares of one thread's processor time, by the layer that it is inside of, from our own code inwards."""
    service = _connected(root)
    profile = cProfile.Profile()
    profile.runcall(lambda: [_ask(service, prompt) for prompt in prompts()])
    stats = pstats.Stats(profile)
    inside = {
        layer: max(row[3] for (path, _, _), row in stats.stats.items() if layer in path)  # type: ignore[attr-defined]
        for layer in LAYERS
    }
    whole = inside[LAYERS[0]]
    return {layer: seconds / whole for layer, seconds in inside.items()}


def main() -> int:
    """Print all rates and ratios."""
    _install()
    rates: dict[str, list[float]] = {name: [] for name in CLIENTS}
    with noop_server() as root, tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "prompts.jsonl"
        data.write_text("".join(json.dumps({"prompt": prompt, "output_tokens": 60}) + "\n" for prompt in prompts()))
        for turn in range(ROUNDS):
            for name, client in CLIENTS.items():
                rates[name].append(client(root, data, Path(folder) / f"{turn}.json"))
                print(f"{name:17} {rates[name][-1]:6,.0f} requests/s", flush=True)
        shares = where_time_goes(root)
    ours = max(rates["vllm-gate"])
    for name in list(CLIENTS)[1:]:
        print(f"{ours / max(rates[name]):.2f} times {name}")
    print("a request's time:", ", ".join(f"{share:.0%} inside {layer}" for layer, share in shares.items()))
    return 0


def _connected(root: str) -> Service:
    return connect(name="under_test", base_url=f"{root}/v1", model=MODEL, api="openai", api_key=None, timeout_s=30.0)


def _ask(service: Service, prompt: str) -> object:
    return service.send(CHAT, {"messages": [{"role": "user", "content": prompt}], "max_tokens": 60})


def _run(out: Path, *command: object) -> dict[str, list[dict[str, dict[str, float]]]]:
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(done.stdout[-2_000:])
    found: dict[str, list[dict[str, dict[str, float]]]] = json.loads(out.read_text())
    return found


def _install() -> None:
    """vLLM, guidellm, and what `vllm bench serve` reads its prompts with."""
    install(LAB)
    uv = LAB.venv / "bin/uv"
    if not GUIDELLM.exists():
        venv.create(GUIDELLM)
    for python, packages in ((GUIDELLM / "bin/python", ["guidellm"]), (LAB.python, ["pandas", "datasets"])):
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)


if __name__ == "__main__":
    raise SystemExit(main())
