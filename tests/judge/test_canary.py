"""The canary's verdict from counts. Boundaries are those of the e-processes' own tables."""

import itertools
import math
from dataclasses import fields

import numpy as np
import pytest

from vllm_gate.core.verdict import Verdict
from vllm_gate.judge.canary import Counts, Limits, judge, more_needed, overall, too_many_excluded

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


def test_a_few_events_never_fail_a_rate() -> None:
    """A first event gives E = 239 against 0.1 %: it could be the detector's own mistake, or either side's turn."""
    fails = [verdicts(same=n, degenerate=n)["degeneration"] is Verdict.FAIL for n in range(12)]
    assert fails.index(True) == 8, "8 of 8 on one side: 0.4 x 1.98^8 + 0.3 x 1.8^8 + … > 100"
    assert all(fails[8:])


def test_a_model_that_degenerates_on_either_side_alike_is_nobodys_fault() -> None:
    """5 % of the prompts, by turns: far above the limit of 0.1 %, and the baseline does it as often."""
    assert verdicts(same=2_000, degenerate=50, recovered=50)["degeneration"] is Verdict.INCONCLUSIVE
    assert verdicts(same=2_000, degenerate=50, recovered=5)["degeneration"] is Verdict.FAIL


def test_servers_that_refuse_by_turns_are_nobodys_fault() -> None:
    flaky = {"same": 700, "worse": 100, "unanswered": 100, "excluded": 100}
    assert verdicts(**flaky, excluded_answered=95)["transport"] is Verdict.INCONCLUSIVE
    assert verdicts(**flaky, excluded_answered=5)["transport"] is Verdict.FAIL


def test_a_healthy_candidate_passes_when_every_question_is_answered() -> None:
    assert verdicts(worse=100, same=2800, better=100) == {
        "task_success": Verdict.PASS,
        "degeneration": Verdict.INCONCLUSIVE,
        "transport": Verdict.PASS,
    }
    assert verdict(worse=100, same=3_100, better=100) is Verdict.PASS


def missing(**counts: int) -> dict[str, int | None]:
    seen = Counts(**counts)
    return {answer.question: more_needed(seen, answer) for answer in judge(seen, LIMITS)}


def test_what_is_missing_is_told() -> None:
    assert missing(same=100)["degeneration"] == pytest.approx(3_246 - 100, rel=0.15)
    assert missing(same=100)["task_success"] is not None
    assert missing(worse=5, same=5)["task_success"] is None, "no number of such pairs certifies it"


def test_a_baseline_that_is_down_proves_nothing() -> None:
    counts = Counts(same=4_000, excluded=300)
    assert too_many_excluded(counts)
    assert overall(counts, judge(counts, LIMITS)) is Verdict.INCONCLUSIVE
    assert not too_many_excluded(Counts(same=4_000, excluded=100))


def test_a_measured_failure_stands_whatever_was_excluded() -> None:
    assert verdict(worse=40, excluded=400) is Verdict.FAIL


def test_shards_add_up_to_one_run() -> None:
    rng = np.random.default_rng(3)
    names = [field.name for field in fields(Counts)]
    shards = [Counts(**dict(zip(names, map(int, rng.integers(0, 50, 8)), strict=True))) for _ in range(5)]
    whole = sum(shards[1:], shards[0])
    again = sum(reversed(shards[:-1]), shards[-1])
    assert judge(whole, LIMITS) == judge(again, LIMITS)
    assert whole.pairs == sum(shard.pairs for shard in shards)
