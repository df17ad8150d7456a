"""A finding can't be built wrong."""

import math

import pytest

from vllm_gate.core.finding import EVIDENCE_LIMIT, Evidence, EvidenceKind, Finding, Interval, Location
from vllm_gate.core.verdict import Verdict


def finding(**fields: object) -> Finding:
    return Finding(**{"check": "probe", "verdict": Verdict.PASS, "message": "answered OK", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": ""},
        {"check": ""},
        {"verdict": Verdict.FAIL},
        {"verdict": Verdict.ERROR, "warning": "beware"},
        {"samples": 0},
        {"symptom": "loop"},
        {"measured": math.nan},
        {"measured": math.inf, "verdict": Verdict.INCONCLUSIVE},
    ],
    ids=lambda wrong: ", ".join(wrong),
)
def test_what_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        finding(**wrong)


def test_a_failure_that_measured_nan_stands() -> None:
    nan = finding(verdict=Verdict.FAIL, measured=math.nan, remedy="roll back")
    assert math.isnan(float(nan.measured or 0))


def test_long_evidence_is_cut_and_says_by_how_much() -> None:
    evidence = Evidence(EvidenceKind.RESPONSE, "answer", "!" * (EVIDENCE_LIMIT + 16))
    assert evidence.text.endswith("… (16 characters cut)")
    assert evidence.text.startswith("!" * EVIDENCE_LIMIT)


def test_places_are_one_based_and_readable() -> None:
    assert str(Location("settings.json", 19, 7)) == "settings.json:19:7"
    assert str(Location("settings.json", 19)) == "settings.json:19"
    with pytest.raises(ValueError, match="start at 1"):
        Location("settings.json", 0)


def test_an_interval_is_the_right_way_round() -> None:
    with pytest.raises(ValueError, match="low <= high"):
        Interval(0.2, 0.1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Interval(0.1, 0.2, level=95)
