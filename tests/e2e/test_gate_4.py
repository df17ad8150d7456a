"""Gate 4 on a real vLLM: the cache's hit is proved, exact lengths are hit, and what the model can't do lands rightly.

The model has 135M parameters: it finds no code in 2,048 tokens and fills few schemas well. What is tested is that the
gate asks, and that each answer is sorted as a person would sort it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e.gate import Outcome, run
from tests.e2e.lab.serve import Server

GATE_4 = "gate_4_long_context"


def test_gate_4_sorts_what_a_real_server_answers(healthy: Server, tmp_path: Path) -> None:
    settings = {GATE_4: {"enabled": True, "context_lengths": [1024, 2048, 16384], "max_requests": 4, "concurrency": 8}}
    outcome = run(healthy, tmp_path, gates="4", settings=settings)

    assert outcome.exit_code == 1
    _prefix_cache_is_proved(outcome)
    _lengths_are_exact_or_told(outcome)
    _structured_output_is_sorted(outcome)
    _every_answer_is_kept(outcome)


def _prefix_cache_is_proved(outcome: Outcome) -> None:
    (cache,) = outcome.findings(GATE_4, "prefix_cache")
    assert cache["verdict"] == "pass"
    assert "a hit of" in cache["message"]
    (shared,) = outcome.findings(GATE_4, "shared_prefix")
    assert shared["verdict"] == "pass"


def _lengths_are_exact_or_told(outcome: Outcome) -> None:
    at_length = {finding["message"].split()[1]: finding for finding in outcome.findings(GATE_4, "context")}
    assert {"1024", "2048"} <= set(at_length)
    (beyond,) = [finding for finding in outcome.findings(GATE_4, "context") if finding["verdict"] == "inconclusive"]
    assert "16384" in beyond["message"]
    assert "8192" in beyond["message"]


def _structured_output_is_sorted(outcome: Outcome) -> None:
    (json_answers,) = outcome.findings(GATE_4, "json")
    assert json_answers["verdict"] in ("pass", "fail")
    assert json_answers["symptom"] != "schema_ignored"
    (tools,) = outcome.findings(GATE_4, "tools")
    assert tools["symptom"] in (
        "",
        "InvalidJson",
        "SchemaMismatch",
        "call_in_text",
        "stream_differs",
        "parallel_merged",
        "truncated",
        "runaway",
    )


def _every_answer_is_kept(outcome: Outcome) -> None:
    """Printed for a person to read: is each in the bucket where it belongs?"""
    (facts,) = [gate["facts"] for gate in outcome.report["gates"] if gate["gate"] == GATE_4]
    answers = [*facts["json_answers"], *facts["json_plain_answers"], *facts["tool_calls"]["sorted"]]
    for answer in answers:
        print(answer, file=sys.stderr)
    assert len(answers) >= 10
