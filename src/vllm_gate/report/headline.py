"""A run's verdict in words, the same in every rendering."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_gate.core.verdict import Verdict

HEADLINES: Mapping[Verdict, tuple[str, str]] = {
    Verdict.PASS: ("pass", "the release is alive and right"),
    Verdict.FAIL: ("blocked", "this release must not reach users"),
    Verdict.ERROR: ("not judged", "the release could not be asked"),
    Verdict.INCONCLUSIVE: ("not judged", "there was not enough to tell"),
    Verdict.SKIPPED: ("not judged", "nothing was asked"),
}
"""What is said, and what it means."""
