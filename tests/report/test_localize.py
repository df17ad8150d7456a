"""Which switch makes a fault vanish; a run that could not be judged explains nothing."""

import pytest

from vllm_gate.report.localize import Tried, conclusion, to_markdown, tried


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            {"as-is": "fail", "fusion-off": "pass", "eager": "pass", "tp-1": "pass"},
            "The fault vanishes with: fusion-off, eager, tp-1.",
        ),
        (
            {"as-is": "fail", "fusion-off": "fail", "tp-1": "fail"},
            "No switch makes the fault vanish: look at the weights, the quantisation and the version.",
        ),
        (
            {"as-is": "fail", "fusion-off": "pass", "tp-1": "error"},
            "The fault vanishes with: fusion-off. Not known for: tp-1.",
        ),
        (
            {"as-is": "fail", "fusion-off": "fail", "tp-1": "inconclusive"},
            "No switch is known to make the fault vanish. Not known for: tp-1.",
        ),
        ({"as-is": "fail"}, "No switch is known to make the fault vanish."),
        (
            {"as-is": "pass", "eager": "pass"},
            "The fault did not show again as it was (pass): it comes and goes, or its cause is gone.",
        ),
        ({"eager": "pass"}, "There is no run of the configuration at fault (as-is), so nothing can be concluded."),
    ],
)
def test_what_can_be_concluded(rows: dict[str, str], said: str) -> None:
    assert conclusion([Tried(switch, verdict, ()) for switch, verdict in rows.items()]) == said


def test_a_report_is_read_for_how_it_fails() -> None:
    findings = [
        {"verdict": "fail", "symptom": "nan_argmax", "check": "probe"},
        {"verdict": "fail", "symptom": "nan_argmax", "check": "suite"},
        {"verdict": "fail", "symptom": "", "check": "logit_drift"},
        {"verdict": "pass", "symptom": "", "check": "x"},
    ]
    assert tried("eager", {"verdict": "fail", "gates": [{"findings": findings}]}) == Tried(
        "eager", "fail", ("nan_argmax", "logit_drift")
    )


def test_the_table_begins_with_the_fault() -> None:
    text = to_markdown([Tried("eager", "pass", ()), Tried("as-is", "fail", ("nan_argmax",))])
    assert text.splitlines()[2:] == [
        "| switch | verdict | how it fails |",
        "|---|---|---|",
        "| as-is | fail | nan\\_argmax |",
        "| eager | pass |   |",
    ]
