"""A canary pair by pair: where it ends, and that its end depends on the outcomes alone."""

import numpy as np
import pytest

from vllm_gate.core.verdict import Verdict
from vllm_gate.judge.canary import SETTLING, Counts, Limits
from vllm_gate.judge.canary_course import Course

LIMITS = Limits(success_drop=0.03, degeneration=0.001)
SAME, WORSE = Counts(same=1), Counts(worse=1)
LOOPS = Counts(worse=1, degenerate=1)


def run(outcomes: list[Counts]) -> Course:
    course = Course(LIMITS)
    for outcome in outcomes:
        if course.ended:
            break
        course.add(outcome)
    return course


def verdicts(course: Course) -> dict[str, Verdict]:
    return {answer.question: answer.verdict for answer in course.answers}


@pytest.mark.parametrize("broken", [WORSE, LOOPS, Counts(worse=1, unanswered=1)])
def test_a_broken_candidate_is_stopped_within_15_and_its_success_has_failed(broken: Counts) -> None:
    course = run([broken] * 100)
    assert course.counts.pairs <= 15
    assert verdicts(course)["task_success"] is Verdict.FAIL
    assert course.verdict is Verdict.FAIL


def test_a_candidate_that_breaks_after_a_while_is_stopped_soon_after() -> None:
    course = run([SAME] * 200 + [WORSE] * 200)
    assert course.verdict is Verdict.FAIL
    assert 200 < course.counts.pairs < 260


def test_what_has_failed_stays_failed() -> None:
    """Eight loops on one side cross the bar; healthy pairs after them take nothing back."""
    course = run([Counts(same=1, degenerate=1)] * 8 + [SAME] * 50)
    assert verdicts(course)["degeneration"] is Verdict.FAIL
    assert course.counts.pairs == 8 + SETTLING


def test_a_healthy_candidate_passes_where_the_last_question_does() -> None:
    course = run([SAME] * 5_000)
    assert course.verdict is Verdict.PASS
    assert course.counts.pairs == 3_246, "0 of 3,246 certify a rate below 0.1 %, as in the table of e-values"


def test_nothing_is_decided_without_pairs() -> None:
    course = run([Counts(excluded=1)] * 300)
    assert not course.ended
    assert course.verdict is Verdict.INCONCLUSIVE


def test_the_curve_stays_short() -> None:
    course = Course(Limits(success_drop=0.001, degeneration=0.00001))
    for _ in range(30_000):
        course.add(SAME)
    pairs = [point.counts.pairs for point in course.curve]
    assert pairs[:20] == list(range(1, 21))
    assert len(pairs) < 110
    assert pairs == sorted(pairs)


def test_the_same_outcomes_end_at_the_same_place() -> None:
    rng = np.random.default_rng(4)
    outcomes = [WORSE if r < 0.15 else Counts(better=1) if r > 0.97 else SAME for r in rng.random(3_000)]
    first, second = run(outcomes), run(outcomes)
    assert first.answers == second.answers
    assert first.counts == second.counts
    assert first.verdict is Verdict.FAIL
