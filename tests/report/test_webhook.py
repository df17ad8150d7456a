"""What each receiver is told, in its own form."""

import json

import pytest

from vllm_gate.config.schema import load_schema
from vllm_gate.core.finding import Finding
from vllm_gate.core.report import Decision, GateResult, Report, Rollback, ServiceFacts
from vllm_gate.core.verdict import Verdict
from vllm_gate.report.webhook import FORMATS, payload

FAILURE = Finding(check="probe", verdict=Verdict.FAIL, message="16 × token id 0", symptom="nan_argmax", remedy="r")


def report(rollback: Rollback | None, reason: str = "NaN") -> Report:
    return Report(
        tool_version="1",
        started_at="",
        duration_s=1,
        gates=(GateResult(gate="gate_3", number=3, title="t", findings=(FAILURE,)),),
        services=(ServiceFacts(name="under_test", base_url="http://x", model="qwen", version="0.25.0"),),
        decision=Decision(matched=("gate_3_failed",), reason=reason, action="dispatch"),
        rollback=rollback,
    )


DONE = Rollback(correlation_id="vllm-gate-42-1", dispatched=True, run_url="https://run")


def test_json_holds_the_facts() -> None:
    told = payload(report(DONE), "json", run_url="https://job")
    assert told["verdict"] == "fail"
    assert told["conditions"] == ["gate_3_failed"]
    assert (told["dispatched"], told["rollback_run_url"], told["run_url"]) == (True, "https://run", "https://job")
    assert told["failures"] == [
        {"gate": "gate_3", "check": "probe", "symptom": "nan_argmax", "message": "16 × token id 0"}
    ]
    assert "base_url" not in json.dumps(told), "an address inside a company is nobody's business outside"


TEXT = "vllm-gate: FAIL qwen\nwhy: NaN\nrollback: https://run\nrun: https://job"


@pytest.mark.parametrize(
    ("style", "body"),
    [
        ("slack", {"text": TEXT}),
        ("feishu", {"msg_type": "text", "content": {"text": TEXT}}),
        ("dingtalk", {"msgtype": "text", "text": {"content": TEXT}, "at": {"isAtAll": False}}),
    ],
)
def test_a_chat_gets_a_text(style: str, body: dict[str, object]) -> None:
    assert payload(report(DONE), style, run_url="https://job") == body


def test_a_rollback_that_failed_is_loud() -> None:
    failed = Rollback(correlation_id="x", error="HTTP 403")
    assert "rollback NOT dispatched: HTTP 403" in payload(report(failed), "slack")["text"]


def test_model_text_pings_nobody() -> None:
    hostile = report(DONE, reason="<!channel> & <@U1> <at user_id='all'>")
    assert "<!channel>" not in payload(hostile, "slack")["text"]
    assert "<at" not in payload(hostile, "feishu")["content"]["text"]


def test_every_format_of_the_configuration_is_known() -> None:
    allowed = load_schema("config.schema.json")["properties"]["rollback"]["properties"]["format"]["enum"]
    assert set(allowed) == set(FORMATS)
