"""A finding: one check's answer, with everything a reader needs to believe or refute it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from vllm_gate.core.verdict import Verdict

EVIDENCE_LIMIT = 4_000
"""Characters of evidence text kept: enough to see how an answer is wrong, bounded for any report."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file of the user's: 1-based line, and column where it is known."""

    path: str
    line: int = 1
    column: int | None = None

    def __post_init__(self) -> None:
        if self.line < 1 or (self.column is not None and self.column < 1):
            raise ValueError(f"{self.path}: lines and columns start at 1, not {self.line}:{self.column}")

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f":{self.column}" if self.column else "")


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval in the finding's unit."""

    low: float
    high: float
    level: float = 0.95

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"an interval needs low <= high, got {self.low}..{self.high}")
        if not 0 < self.level < 1:
            raise ValueError(f"a confidence level lies between 0 and 1, not {self.level}")


class EvidenceKind(StrEnum):
    """What an evidence text is, so that a reporter can render it safely and in a fitting way."""

    REQUEST = "request"
    RESPONSE = "response"
    LOG = "log"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Text a reader can check: hostile by default (model output, log lines), never markup."""

    kind: EvidenceKind
    title: str
    text: str

    def __post_init__(self) -> None:
        if len(self.text) > EVIDENCE_LIMIT:
            cut = len(self.text) - EVIDENCE_LIMIT
            object.__setattr__(self, "text", f"{self.text[:EVIDENCE_LIMIT]}… ({cut} characters cut)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check's answer. It can't be built wrong: see `__post_init__` for what is refused.

    `check` is the stable name (`ready_endpoint`), `message` one sentence in the user's terms, `symptom` a stable
    word for *how* it failed (`nan_argmax`, `loop`, …; empty when passing), `remedy` what to do about it.
    `measured` and `threshold` are in `unit`; `samples` is how many observations stand behind `measured`.
    A passing finding may carry a `warning`, which changes no verdict.
    """

    check: str
    verdict: Verdict
    message: str
    symptom: str = ""
    measured: float | str | None = None
    threshold: float | str | None = None
    unit: str = ""
    samples: int | None = None
    interval: Interval | None = None
    evidence: tuple[Evidence, ...] = ()
    location: Location | None = None
    remedy: str = ""
    warning: str = ""

    def __post_init__(self) -> None:
        if not self.check or not self.message:
            raise ValueError("a finding needs the name of its check and a message")
        passing = self.verdict is Verdict.PASS
        if self.verdict is Verdict.FAIL and not self.remedy:
            raise ValueError(f"{self.check}: a failure needs a remedy")
        if self.warning and not passing:
            raise ValueError(f"{self.check}: only a passing finding carries a warning")
        if passing and self.samples == 0:
            raise ValueError(f"{self.check}: nothing was measured, so it cannot pass")
        if passing and self.symptom:
            raise ValueError(f"{self.check}: a passing finding has no symptom")
        if isinstance(self.measured, float) and not math.isfinite(self.measured) and self.verdict is not Verdict.FAIL:
            raise ValueError(f"{self.check}: a measured value of {self.measured} is a failure, not {self.verdict}")
