"""Which switch makes a fault vanish: the same gate under several configurations, side by side. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vllm_gate.report.escape import table_cell

AS_IS = "as-is"
"""The configuration under which the fault was seen."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One configuration: what its report (the JSON of `report.json`) says."""

    switch: str
    verdict: str
    symptoms: tuple[str, ...]


def tried(switch: str, report: Mapping[str, Any]) -> Tried:
    """Reads a report. Raises KeyError and TypeError for what is none."""
    failed = [finding for gate in report["gates"] for finding in gate["findings"] if finding["verdict"] == "fail"]
    symptoms = dict.fromkeys(finding["symptom"] or finding["check"] for finding in failed)
    return Tried(switch, str(report["verdict"]), tuple(symptoms))


def conclusion(rows: list[Tried]) -> str:
    """One sentence. Only a switch under which the same gate *passed* explains anything."""
    as_is = next((row for row in rows if row.switch == AS_IS), None)
    if as_is is None:
        return f"There is no run of the configuration at fault ({AS_IS}), so nothing can be concluded."
    if as_is.verdict != "fail":
        return f"The fault did not show again as it was ({as_is.verdict}): it comes and goes, or its cause is gone."
    others = [row for row in rows if row.switch != AS_IS]
    cured = [row.switch for row in others if row.verdict == "pass"]
    unknown = [row.switch for row in others if row.verdict not in ("pass", "fail")]
    if cured:
        said = f"The fault vanishes with: {', '.join(cured)}."
    elif others and not unknown:
        said = "No switch makes the fault vanish: look at the weights, the quantisation and the version."
    else:
        said = "No switch is known to make the fault vanish."
    return said + (f" Not known for: {', '.join(unknown)}." if unknown else "")


def to_markdown(rows: list[Tried]) -> str:
    """The conclusion and a table, the configuration at fault first."""
    ordered = sorted(rows, key=lambda row: (row.switch != AS_IS, row.switch))
    lines = [conclusion(ordered), "", "| switch | verdict | how it fails |", "|---|---|---|"]
    lines += [
        f"| {table_cell(row.switch)} | {table_cell(row.verdict)} | {table_cell(', '.join(row.symptoms))} |"
        for row in ordered
    ]
    return "\n".join(lines) + "\n"
