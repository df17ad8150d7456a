"""How verdicts add up: fail > error > inconclusive > pass; skipped counts for nothing."""

import pytest

from vllm_gate.core.verdict import Verdict, worst

PASS, FAIL, ERROR = Verdict.PASS, Verdict.FAIL, Verdict.ERROR
INCONCLUSIVE, SKIPPED = Verdict.INCONCLUSIVE, Verdict.SKIPPED


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([PASS], PASS),
        ([PASS, SKIPPED], PASS),
        ([PASS, INCONCLUSIVE], INCONCLUSIVE),
        ([INCONCLUSIVE, ERROR, PASS], ERROR),
        ([ERROR, FAIL, INCONCLUSIVE], FAIL),
        ([SKIPPED, FAIL], FAIL),
    ],
)
def test_the_worst_one_wins(verdicts: list[Verdict], expected: Verdict) -> None:
    assert worst(verdicts) is expected


@pytest.mark.parametrize("nothing", [[], [SKIPPED], [SKIPPED, SKIPPED]])
def test_nothing_asked_is_an_error_and_never_a_pass(nothing: list[Verdict]) -> None:
    assert worst(nothing) is ERROR


def test_only_pass_and_skipped_let_a_release_through() -> None:
    assert [verdict for verdict in Verdict if not verdict.blocks] == [PASS, SKIPPED]
