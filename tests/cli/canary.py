"""A canary from the command line: traffic in a file, and two servers whose answers are a function of the request."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.server.loopback import Answer, Loopback, Request, http

SETTINGS = {
    "gate_config": {
        "gate_5_shadow_canary": {
            "traffic_ratio": 1.0,
            "degeneration_rate_threshold": 0.05,
            "task_success_drop_threshold": 0.05,
        }
    },
    "rollback_conditions": ["gate_5_task_success_dropped"],
}
LOOP = "and so on " * 40


def write_traffic(path: Path, count: int) -> Path:
    """An OpenAI Batch file of `count` chats, each with its number."""
    rows = (
        {
            "custom_id": f"r-{number}",
            "url": "/v1/chat/completions",
            "body": {"messages": [{"role": "user", "content": f"private question {number}"}]},
        }
        for number in range(count)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def answering(broken: Callable[[int], bool], *, delay_s: float = 0.0) -> Callable[[Request], Answer]:
    """A server that loops where `broken` says so of the request's number."""

    def respond(request: Request) -> Answer:
        if request.path.endswith("/models"):
            return http({"data": [{"id": "m"}]})
        if "messages" not in (asked := request.json):
            return http({"detail": "Not Found"}, status=404)
        time.sleep(delay_s)
        number = str(asked["messages"][0]["content"]).rpartition(" ")[2]
        text = LOOP if number.isdigit() and broken(int(number)) else "Paris is the capital of France."
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return http({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 9}})

    return respond


def never(_number: int) -> bool:
    return False


def always(_number: int) -> bool:
    return True


def share(rate: float) -> Callable[[int], bool]:
    """A seeded share of the requests."""
    return lambda number: random.Random(number).random() < rate


@contextmanager
def canary(
    folder: Path, broken: Callable[[int], bool], *, count: int = 400, delay_s: float = 0.0, **settings: Any
) -> Iterator[None]:
    """Both servers up, and the files that describe them and the traffic in `folder`."""
    with Loopback(answering(broken, delay_s=delay_s)) as candidate, Loopback(answering(never)) as baseline:
        write_traffic(folder / "traffic.jsonl", count)
        changed = json.loads(json.dumps(SETTINGS))
        changed["gate_config"]["gate_5_shadow_canary"] |= settings
        (folder / "settings.json").write_text(json.dumps(changed))
        services = {"under_test": candidate, "baseline": baseline}
        tables = [f'[service.{name}]\nbase_url = "{one.base_url}"\nmodel = "m"\n' for name, one in services.items()]
        (folder / "config.toml").write_text("".join(tables) + '[traffic]\nlog = "traffic.jsonl"\n')
        yield


def facts(folder: Path) -> dict[str, Any]:
    """What the report of a canary tells in numbers."""
    report = json.loads((folder / "report.json").read_text())
    (gate,) = [gate for gate in report["gates"] if gate["gate"] == "gate_5_shadow_canary"]
    found: dict[str, Any] = gate["facts"]["canary"]
    return found
