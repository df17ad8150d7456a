"""Ask a server everything in `exchanges` and write down what it answers. Standard library only.

python -m tests.simulator_contract.record http://127.0.0.1:8000 smollm2 OUT.json
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.simulator_contract.exchanges import EXCHANGES, Exchange

LONG_LIST = 50
_HISTOGRAM_PART = re.compile(r"^\S+_(bucket|created)[{ ]")


def ask(root: str, model: str, exchange: Exchange, timeout_s: float = 300.0) -> tuple[int, str, str]:
    """Status, content type and body text of one exchange; status 0 where no HTTP answer came."""
    data = request_text(model, exchange)
    request = urllib.request.Request(
        root + exchange.path,
        data=None if data is None else data.encode(),
        headers={"Content-Type": "application/json"},
        method=exchange.method,
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return answer.status, answer.headers.get("content-type", ""), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("content-type", ""), error.read().decode()
    except OSError as error:
        return 0, "", str(error)


def request_text(model: str, exchange: Exchange) -> str | None:
    """The body that is sent."""
    if exchange.raw is not None or exchange.body is None:
        return exchange.raw
    return json.dumps({"model": model, **exchange.body})


def exchanged(root: str, model: str, exchange: Exchange) -> dict[str, Any]:
    """One exchange as it is written to the file."""
    status, content_type, text = ask(root, model, exchange)
    sent = request_text(model, exchange)
    request: dict[str, Any] = {"method": exchange.method, "path": exchange.path}
    if exchange.raw is not None:
        request["raw"] = exchange.raw
    elif sent is not None:
        request["body"] = _without_long_lists(json.loads(sent))
    response: dict[str, Any] = {"status": status, "content_type": content_type}
    if text and content_type.startswith("application/json"):
        response["json"] = _impersonal(json.loads(text))
    elif content_type.startswith("text/event-stream"):
        response["sse"] = text
    else:
        response["text"] = _short_metrics(text) if exchange.name == "metrics" else text
    return {"request": request, "response": response}


def _without_long_lists(body: dict[str, Any]) -> dict[str, Any]:
    return {
        key: f"{len(value)} × {value[0]}" if isinstance(value, list) and len(value) > LONG_LIST else value
        for key, value in body.items()
    }


def _impersonal(answer: Any) -> Any:
    """Without what belongs to the recording machine: its environment, and where its files lie."""
    if isinstance(answer, dict):
        return {key: _impersonal(value) for key, value in answer.items() if key not in ("vllm_env", "system_env")}
    if isinstance(answer, list):
        return [_impersonal(value) for value in answer]
    if isinstance(answer, str) and answer.startswith("/") and answer.endswith("/smollm2-135m"):
        return "/models/smollm2-135m"
    return answer


def _short_metrics(text: str) -> str:
    """Every vLLM metric without the buckets of histograms, which only add length."""
    kept = (line for line in text.splitlines() if "vllm:" in line and not _HISTOGRAM_PART.match(line))
    return "\n".join(kept) + "\n"


def record(root: str, model: str) -> dict[str, Any]:
    """Exchange name to what was asked and answered."""
    return {exchange.name: exchanged(root, model, exchange) for exchange in EXCHANGES}


def main() -> None:
    """See the module."""
    root, model, out = sys.argv[1:]
    answers = record(root, model)
    Path(out).write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, answer in answers.items():
        print(f"{answer['response']['status']} {name}")


if __name__ == "__main__":
    main()
