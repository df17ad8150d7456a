"""Gate 5 on real servers: the original fault is stopped at once; a healthy release is neither blocked nor passed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.gate import Outcome, run, service
from tests.e2e.lab.serve import Server
from tests.e2e.variants import serves

from vllm_gate.judge.sequential import drop_below, rate_below

GATE_5 = "gate_5_shadow_canary"
REQUESTS = 100
THINGS = ("bread", "a river", "the moon", "an old bridge", "rain", "a violin", "chess", "salt", "a library", "the sea")
ASKED = (
    "What is {}? Answer in one sentence.",
    "Write one sentence about {}.",
    "Name three words that have to do with {}.",
    "Is there anything that a child should know about {}?",
    "Translate into French: I like {}.",
    "Give a JSON object with the keys name and kind for {}.",
    "Continue: Once upon a time there was {}, and",
    "Why do people like {}?",
    "Write a short title for a story about {}.",
    "Say something kind about {}.",
)


def write_traffic(path: Path) -> Path:
    """An OpenAI Batch file: short chats, a tenth of them with a JSON schema, half of them streamed."""
    rows = []
    for number in range(REQUESTS):
        asked = ASKED[number % len(ASKED)].format(THINGS[number // len(ASKED)])
        body: dict[str, Any] = {"messages": [{"role": "user", "content": asked}], "max_tokens": 16, "temperature": 0}
        if "JSON" in asked:
            properties = {"name": {"type": "string", "maxLength": 20}, "kind": {"type": "string", "maxLength": 20}}
            schema = {"type": "object", "properties": properties, "required": ["name", "kind"]}
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}
            body["max_tokens"] = 40
        rows.append({"custom_id": f"r-{number}", "url": "/v1/chat/completions", "body": body})
        body["stream"] = number % 2 == 0
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@serves(3, "fp32_as_bf16")
def test_the_original_fault_is_stopped_within_15_requests(variant: Server, healthy: Server, tmp_path: Path) -> None:
    outcome = _judge(variant, healthy, tmp_path)

    assert outcome.exit_code == 1
    counts = _facts(outcome)["counts"]
    assert counts["worse"] + counts["same"] + counts["better"] <= 15
    (success,) = outcome.findings(GATE_5, "task_success")
    assert success["verdict"] == "fail"
    assert any("empty_text" in evidence["title"] + evidence["text"] for evidence in success["evidence"])  # only "!"
    assert outcome.report["decision"]["matched"] == ["gate_5_task_success_dropped"]


def test_a_healthy_release_is_inconclusive_at_100_requests_with_a_true_number_of_missing_ones(
    healthy: Server, tmp_path: Path
) -> None:
    outcome = _judge(healthy, healthy, tmp_path)

    assert outcome.exit_code == 3
    counts = _facts(outcome)["counts"]
    pairs = counts["worse"] + counts["same"] + counts["better"]
    assert pairs + counts["excluded"] == REQUESTS
    assert "fail" not in {finding["verdict"] for finding in outcome.findings(GATE_5)}
    (degeneration,) = outcome.findings(GATE_5, "degeneration")
    assert degeneration["verdict"] == "inconclusive"
    more = int(re.findall(r"about ([\d,]+) more requests are needed", degeneration["message"])[0].replace(",", ""))
    events = counts["degenerate"] / pairs
    assert rate_below(events * (pairs + more), pairs + more, 0.001) >= 2.9957  # ln 20, a pass
    assert rate_below(events * (pairs + 0.9 * more), pairs + 0.9 * more, 0.001) < 2.9957
    _a_number_for_success_is_true_too(outcome, counts, pairs)


def _a_number_for_success_is_true_too(outcome: Outcome, counts: Mapping[str, int], pairs: int) -> None:
    (success,) = outcome.findings(GATE_5, "task_success")
    told = re.findall(r"about ([\d,]+) more requests are needed", success["message"])
    if success["verdict"] == "inconclusive" and told:
        growth = 1 + int(told[0].replace(",", "")) / pairs
        worse, same, better = (counts[name] * growth for name in ("worse", "same", "better"))
        assert drop_below(worse, same, better, 0.03) >= 2.9957


def _judge(candidate: Server, baseline: Server, folder: Path) -> Outcome:
    traffic = write_traffic(folder / "traffic.jsonl")
    return run(
        candidate,
        folder,
        gates="5",
        settings={GATE_5: {"traffic_ratio": 1.0, "concurrency": 8}},
        config=service("baseline", baseline) + f'\n[traffic]\nlog = "{traffic}"\n',
    )


def _facts(outcome: Outcome) -> Mapping[str, Any]:
    (gate,) = [gate for gate in outcome.report["gates"] if gate["gate"] == GATE_5]
    facts: Mapping[str, Any] = gate["facts"]["canary"]
    return facts
