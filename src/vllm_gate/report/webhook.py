"""What a webhook is told of a rollback, in the words of each receiver. Pure: nothing is sent or signed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vllm_gate.core.report import Report
from vllm_gate.core.verdict import Verdict

FORMATS = ("json", "slack", "feishu", "dingtalk")
_TEXT_LIMIT = 3_000
"""Characters. Slack cuts a text block there, and the chats are no place for more."""


def payload(report: Report, style: str, *, run_url: str = "") -> dict[str, Any]:
    """The body for a receiver of `style` (see `FORMATS`). Raises KeyError for another."""
    return _RENDERINGS[style](report, run_url)


def _facts(report: Report, run_url: str) -> dict[str, Any]:
    decision, rollback = report.decision, report.rollback
    return {
        "tool": "vllm-gate",
        "version": report.tool_version,
        "verdict": report.verdict.value,
        "failed_gates": list(report.failed_gates),
        "conditions": list(decision.matched) if decision else [],
        "action": decision.action if decision else "none",
        "reason": decision.reason if decision else "",
        "dispatched": bool(rollback and rollback.dispatched),
        "rollback_run_url": rollback.run_url if rollback else "",
        "rollback_error": rollback.error if rollback else "",
        "correlation_id": rollback.correlation_id if rollback else "",
        "run_url": run_url,
        "services": [
            {"name": service.name, "model": service.model, "version": service.version} for service in report.services
        ],
        "failures": [
            {"gate": gate.gate, "check": finding.check, "symptom": finding.symptom, "message": finding.message}
            for gate in report.gates
            for finding in gate.findings
            if finding.verdict is Verdict.FAIL
        ],
    }


def _text(report: Report, run_url: str) -> str:
    """The facts as a few lines that a person on call reads on a telephone."""
    decision, rollback = report.decision, report.rollback
    model = next((service.model for service in report.services if service.name == "under_test"), "")
    lines = [f"vllm-gate: {report.verdict.value.upper()} {model}".rstrip()]
    if decision:
        lines.append(f"why: {decision.reason}")
    if rollback and rollback.error:
        lines.append(f"rollback NOT dispatched: {rollback.error}")
    elif rollback and rollback.dispatched:
        lines.append(f"rollback: {rollback.run_url or 'dispatched'}")
    else:
        lines.append("rollback: not dispatched")
    if run_url:
        lines.append(f"run: {run_url}")
    return "\n".join(lines)[:_TEXT_LIMIT]


def _slack(report: Report, run_url: str) -> dict[str, Any]:
    # Slack reads &, < and > as markup: a model's text could otherwise ping a channel (<!channel>).
    text = _text(report, run_url).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": text}


def _feishu(report: Report, run_url: str) -> dict[str, Any]:
    # Feishu reads <at …> in a text.
    return {"msg_type": "text", "content": {"text": _text(report, run_url).replace("<", "＜")}}


def _dingtalk(report: Report, run_url: str) -> dict[str, Any]:
    return {"msgtype": "text", "text": {"content": _text(report, run_url)}, "at": {"isAtAll": False}}


_RENDERINGS: Mapping[str, Callable[[Report, str], dict[str, Any]]] = {
    "json": _facts,
    "slack": _slack,
    "feishu": _feishu,
    "dingtalk": _dingtalk,
}
