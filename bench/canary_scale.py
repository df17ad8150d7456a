"""Time and memory of a canary of 10,000 to 1,000,000 pairs: a traffic log in, a journal out, the candidate in-process.

bench/run canary_scale     # exit 1 when memory exceeds 200 MB, or a pair costs more than 1.25 times what it did before

The log holds the baseline's answers. Of every hundred requests the candidate fails three and the limit is three points,
so that the evidence never suffices and every pair is judged. Each size runs in its own process.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vllm_gate.app.canary import TrafficFiles
from vllm_gate.app.journal import JournalFile
from vllm_gate.config.plan import Gates, Plan, ServiceConfig, ShadowCanarySettings, TrafficSettings
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.canary.means import Means
from vllm_gate.gates.interface import Context
from vllm_gate.gates.shadow_canary import ShadowCanary
from vllm_gate.server.reply import Answer, Reply, Usage

SIZES = (10_000, 100_000, 1_000_000)
MEMORY_MB, GROWTH = 200, 1.25
WORDS = ("it", "is", "alive", "and", "right", "before", "users", "see", "it", "or", "it", "goes", "back", "again")


def said(number: int) -> str:
    """A JSON answer of some fifty words, each another."""
    return json.dumps(
        {"number": number, "words": [f"{word}{number * 7 % (place + 11)}" for place, word in enumerate(WORDS)]}
    )


def rows(count: int) -> Iterator[str]:
    """An OpenAI Batch file joined with its results."""
    for number in range(count):
        messages = [{"role": "user", "content": f"Give me the words of request {number} as JSON."}]
        body = {"model": "m", "messages": messages, "response_format": {"type": "json_object"}, "max_tokens": 200}
        choice = {"index": 0, "message": {"role": "assistant", "content": said(number)}, "finish_reason": "stop"}
        answer = {"status_code": 200, "body": {"choices": [choice]}}
        row = {"custom_id": f"r-{number}", "url": "/v1/chat/completions", "body": body, "response": answer}
        yield json.dumps(row) + "\n"


@dataclass
class InProcess:
    """A candidate that costs next to nothing."""

    name: str = "under_test"
    model: str = "m"

    def send(self, endpoint: str, body: Mapping[str, Any]) -> Answer:
        """No JSON to three requests of a hundred."""
        number = int(body["messages"][0]["content"].split()[6])
        text = said(number) if number % 100 >= 3 else "I would rather not write JSON today, if it is all the same."
        return Reply(
            text=text, finish_reason="stop", elapsed_s=0.01, usage=Usage(prompt_tokens=12, completion_tokens=60)
        )

    def chat(self, messages: Sequence[Mapping[str, object]], *, max_tokens: int, **extra: object) -> Answer:
        """Ready."""
        return Reply(text="OK", finish_reason="stop")


def run(folder: Path, count: int) -> None:
    """One canary; prints what it cost. Raises AssertionError when it did not judge every pair."""
    settings = ShadowCanarySettings(traffic_ratio=1.0, task_success_drop_threshold=0.03, max_requests=count)
    plan = Plan(
        services={"under_test": ServiceConfig(name="under_test")},
        gates=Gates(shadow_canary=settings),
        traffic=TrafficSettings(answers="recorded"),
    )
    journal = JournalFile(folder / f"{count}.canary", {}, resume=False)
    context = Context(
        plan=plan,
        services={"under_test": InProcess()},  # type: ignore[dict-item]
        log=None,
        progress=lambda *_, **__: None,
        now=time.monotonic,
        sleep=time.sleep,
        rng=np.random.default_rng(0),
        means=Means(traffic=TrafficFiles((str(folder / f"{count}.jsonl"),)), journal=journal),
    )
    (check,) = ShadowCanary().checks(plan)
    started = time.perf_counter()
    findings = {finding.check: finding for finding in check.ask(context)}
    seconds = time.perf_counter() - started
    journal.close()
    facts: Any = context.facts["canary"]
    judged = facts["counts"]
    assert (judged["worse"], judged["same"]) == (count * 3 // 100, count * 97 // 100), judged
    assert findings["task_success"].verdict is Verdict.INCONCLUSIVE
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (folder / f"{count}.cost").write_text(json.dumps([seconds, memory]))


def main() -> int:
    """Print seconds, microseconds a pair, and the most memory."""
    costs = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count in SIZES:
            with (folder / f"{count}.jsonl").open("w") as file:
                file.writelines(rows(count))
            process = multiprocessing.get_context("spawn").Process(target=run, args=(folder, count))
            process.start()
            process.join()
            seconds, memory = json.loads((folder / f"{count}.cost").read_text())
            size = (folder / f"{count}.jsonl").stat().st_size / 2**20
            print(
                f"{count:>9,} pairs ({size:,.0f} MiB): {seconds:6.1f} s, "
                f"{seconds / count * 1e6:5.0f} µs a pair, {memory:.0f} MiB"
            )
            costs.append((seconds / count, memory))
    grown = max(costs[-1][0] / costs[0][0], costs[-1][0] / costs[1][0])
    print(f"a pair of the largest costs {grown:.2f} times one of the others, at most")
    return int(grown > GROWTH or max(memory for _, memory in costs) > MEMORY_MB)


if __name__ == "__main__":
    raise SystemExit(main())
