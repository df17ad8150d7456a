"""The action's outputs: a report as a few short texts that later steps can use. Pure."""

from __future__ import annotations

import json
from typing import Any

from vllm_gate.core.report import Report
from vllm_gate.report.json_report import to_dict

REPORT_LIMIT = 900_000
"""Bytes of `report-json`. GitHub takes 1 MiB an output."""


def outputs(report: Report, *, report_path: str, check_urls: tuple[str, ...]) -> dict[str, str]:
    """Name to value. Lists are comma-separated: none of their items can hold a comma."""
    decision, rollback = report.decision, report.rollback
    return {
        "verdict": report.verdict.value,
        "failed-gates": ",".join(report.failed_gates),
        "rollback-conditions": ",".join(decision.matched) if decision else "",
        "rollback-dispatched": "true" if rollback and rollback.dispatched else "false",
        "rollback-run-url": rollback.run_url if rollback else "",
        "check-urls": ",".join(check_urls),
        "report-path": report_path,
        "report-json": _short_json(report),
    }


def _short_json(report: Report) -> str:
    """The report on one line, without evidence and facts; without its findings too where it is still too long."""
    whole = to_dict(report)
    for gate in whole["gates"]:
        gate.pop("facts")
        for finding in gate["findings"]:
            finding.pop("evidence")
    text = _line(whole)
    if len(text.encode()) > REPORT_LIMIT:
        text = _line({**whole, "gates": [{**gate, "findings": []} for gate in whole["gates"]]})
    return text


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
