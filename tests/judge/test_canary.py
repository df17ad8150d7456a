"""The canary's verdict from counts. Boundaries are those of the e-processes' own tables."""

import itertools
import math

import numpy as np
import pytest

from vllm_gate.core.verdict import Verdict
from vllm_gate.judge.canary import Counts, Limits, judge, overall, too_many_excluded

LIMITS = Limits(success_drop=0.03, degeneration=0.001)


def verdicts(**counts: int) -> dict[str, Verdict]:
    return {answer.question: answer.verdict for answer in judge(Counts(**counts), LIMITS)}


def verdict(**counts: int) -> Verdict:
    return overall(Counts(**counts), judge(Counts(**counts), LIMITS))


def test_nothing_asked_is_inconclusive() -> None:
    assert verdict() is Verdict.INCONCLUSIVE
    assert all(math.isnan(answer.observed) for answer in judge(Counts(), LIMITS))


def test_a_candidate_that_is_wholly_broken_is_stopped_within_15() -> None:
    assert verdict(worse=15) is Verdict.FAIL
    stopped = next(n for n in itertools.count(1) if verdict(worse=n, unanswered=n) is Verdict.FAIL)
    assert 3 <= stopped <= 15


def test_one_event_alone_never_fails_a_rate() -> None:
    """A single first event gives E = 239 against 0.1 %: it could be the detector's own mistake."""
    assert verdicts(same=1, degenerate=1)["degeneration"] is Verdict.INCONCLUSIVE
    assert verdicts(same=2, degenerate=2)["degeneration"] is Verdict.INCONCLUSIVE
    assert verdicts(same=3, degenerate=3)["degeneration"] is Verdict.FAIL


def test_a_healthy_candidate_passes_when_every_question_is_answered() -> None:
    assert verdicts(worse=100, same=2800, better=100) == {
        "task_success": Verdict.PASS,
        "degeneration": Verdict.INCONCLUSIVE,
        "transport": Verdict.PASS,
    }
    assert verdict(worse=100, same=3_100, better=100) is Verdict.PASS


def test_what_is_missing_is_told() -> None:
    missing = {answer.question: answer.more for answer in judge(Counts(same=100), LIMITS)}
    assert missing["degeneration"] == pytest.approx(3_246 - 100, rel=0.15)
    assert missing["task_success"] is not None
    broken = {answer.question: answer.more for answer in judge(Counts(worse=5, same=5), LIMITS)}
    assert broken["task_success"] is None, "no number of such pairs certifies it"


def test_a_baseline_that_is_down_proves_nothing() -> None:
    counts = Counts(same=4_000, excluded=300)
    assert too_many_excluded(counts)
    assert overall(counts, judge(counts, LIMITS)) is Verdict.INCONCLUSIVE
    assert not too_many_excluded(Counts(same=4_000, excluded=100))


def test_a_measured_failure_stands_whatever_was_excluded() -> None:
    assert verdict(worse=40, excluded=400) is Verdict.FAIL


def test_shards_add_up_to_one_run() -> None:
    rng = np.random.default_rng(3)
    names = ("worse", "same", "better", "degenerate", "unanswered", "excluded")
    shards = [Counts(**dict(zip(names, map(int, rng.integers(0, 50, 6)), strict=True))) for _ in range(5)]
    whole = sum(shards[1:], shards[0])
    again = sum(reversed(shards[:-1]), shards[-1])
    assert judge(whole, LIMITS) == judge(again, LIMITS)
    assert whole.pairs == sum(shard.pairs for shard in shards)
