"""report.json is strict JSON, holds every field, and is what its schema says."""

import json
import math
from dataclasses import fields

import pytest
from jsonschema import Draft202012Validator, ValidationError

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding, Interval, Location
from vllm_gate.core.report import Decision, GateResult, Report, ServiceFacts
from vllm_gate.core.verdict import Verdict
from vllm_gate.report.json_report import schema, to_dict, to_json


def full_report() -> Report:
    failure = Finding(
        check="deterministic_probe",
        verdict=Verdict.FAIL,
        message='answered "!!!!" where "OK" was expected',
        symptom="nan_argmax",
        measured=math.nan,
        threshold=1.0,
        unit="pass rate",
        samples=8,
        interval=Interval(0.0, 0.37),
        evidence=(Evidence(EvidenceKind.RESPONSE, "answer", "!!!!"),),
        location=Location("settings.json", 19, 7),
        remedy="do not release",
    )
    return Report(
        tool_version="1.0.0",
        started_at="2026-12-01T10:00:00Z",
        duration_s=1.5,
        gates=(
            GateResult(gate="gate_3_golden_prompt", number=3, title="golden prompts", findings=(failure,)),
            GateResult(gate="gate_5_shadow_canary", number=5, title="shadow canary", skipped="switched off"),
        ),
        services=(ServiceFacts(name="under_test", base_url="http://127.0.0.1:8000/v1", model="m", version="0.25.0"),),
        thresholds={"golden_prompt": {"concurrency": (1, 16)}},
        decision=Decision(matched=("gate_3_deterministic_probe_failed",), reason="the probe failed", action="dispatch"),
        notes=("seed 1",),
    )


def test_a_full_report_is_valid_under_the_shipped_schema() -> None:
    Draft202012Validator.check_schema(schema())
    Draft202012Validator(schema()).validate(json.loads(to_json(full_report())))


def test_the_schema_refuses_an_unknown_verdict_and_a_missing_field() -> None:
    validator = Draft202012Validator(schema())
    wrong = to_dict(full_report())
    with pytest.raises(ValidationError):
        validator.validate(wrong | {"verdict": "maybe"})
    del wrong["gates"]
    with pytest.raises(ValidationError):
        validator.validate(wrong)


def test_nan_is_written_by_name_because_json_has_none() -> None:
    assert to_dict(full_report())["gates"][0]["findings"][0]["measured"] == "NaN"
    assert "NaN," not in to_json(full_report()).replace('"NaN",', "")


def test_no_field_of_a_record_is_left_out() -> None:
    body = to_dict(full_report())
    assert {field.name for field in fields(Report)} <= set(body)
    assert {field.name for field in fields(GateResult)} <= set(body["gates"][0])
    assert {field.name for field in fields(Finding)} <= set(body["gates"][0]["findings"][0])


def test_verdicts_are_written_beside_what_they_follow_from() -> None:
    body = to_dict(full_report())
    assert body["verdict"] == "fail"
    assert body["failed_gates"] == ["gate_3_golden_prompt"]
    assert [gate["verdict"] for gate in body["gates"]] == ["fail", "skipped"]
