"""Gate 5's statistics on streams with a known truth: false verdicts, and requests until one is given.

    bench/run sequential_study

Each stream is judged after every request, as the gate does it. Beside it, on the same streams: a two-proportion z-test
with a number of requests fixed beforehand, the same test looked at after every 50 requests, and Mann-Whitney on the
arms' successes (the judge of Kayenta), looked at as often.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from vllm_gate.judge.sequential import drop_above, drop_below, more_often, rate_above, rate_below

SEED = 20_261_201
LIMIT, RATE = 0.03, 0.001
FAIL, PASS = math.log(1 / 0.01), math.log(1 / 0.05)
SUCCESS = 0.85
Counts = NDArray[np.int64]


def pairs(rng: np.random.Generator, drop: float, disagreement: float, length: int) -> Counts:
    """Running counts of worse, same, better, shape (3, length)."""
    p = [(disagreement + drop) / 2, 1 - disagreement, (disagreement - drop) / 2]
    outcomes = rng.choice(3, size=length, p=p)
    return np.cumsum(np.eye(3, dtype=np.int64)[outcomes], axis=0).T


def first(crossed: NDArray[np.bool_]) -> int | None:
    """The request at which it was first so, counted from 1."""
    return int(np.argmax(crossed)) + 1 if crossed.any() else None


def verdict(counts: Counts, limit: float = LIMIT) -> tuple[str, int]:
    """What the gate says of a stream of pairs, and after how many."""
    worse, same, better = counts
    fail = first(drop_above(worse, same, better, limit) >= FAIL)
    passed = first(drop_below(worse, same, better, limit) >= PASS)
    ends = [(n, word) for n, word in ((fail, "fail"), (passed, "pass")) if n]
    return (min(ends)[1], min(ends)[0]) if ends else ("inconclusive", counts.shape[1])


def drops() -> None:
    """A row for each truth."""
    rng = np.random.default_rng(SEED)
    print(f"\nTask success, limit {LIMIT:.0%} points:\n")
    columns = ("true drop", "disagreement", "runs", "fail", "pass", "median requests", "95 % of runs", "all runs")
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for drop, disagreement, runs in (
        (LIMIT, 0.1, 2000),
        (LIMIT, 0.2, 2000),
        (0.0, 0.02, 300),
        (0.0, 0.1, 300),
        (0.0, 0.2, 300),
        (0.01, 0.1, 300),
        (0.05, 0.1, 300),
        (0.10, 0.1, 300),
        (0.5, 0.5, 200),
        (0.98, 0.98, 200),
        (1.0, 1.0, 200),
    ):
        found = [verdict(pairs(rng, drop, disagreement, 20_000 if drop < 0.2 else 500)) for _ in range(runs)]
        print(_row([f"{drop:.0%}", f"{disagreement:.0%}"], found))


def _row(names: list[str], found: list[tuple[str, int]]) -> str:
    share = {word: sum(said == word for said, _ in found) / len(found) for word in ("fail", "pass")}
    taken = [n for said, n in found if said != "inconclusive"]
    within = np.percentile(taken, [50, 95, 100]) if taken else (math.nan,) * 3
    cells = [*names, str(len(found)), f"{share['fail']:.1%}", f"{share['pass']:.1%}", *(f"{n:,.0f}" for n in within)]
    return "| " + " | ".join(cells) + " |"


def degeneration() -> None:
    """A row for each rate of candidate and baseline; a pair in which both degenerate counts for neither."""
    rng = np.random.default_rng(SEED + 1)
    print(f"\nDegeneration, limit {RATE:.1%}:\n")
    columns = ("true rate", "the baseline's", "runs", "fail", "pass", "median requests", "95 % of runs", "all runs")
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for rate, other, runs in (
        (0.0, 0.0, 20),
        (RATE, 0.0, 2000),
        (0.002, 0.0, 300),
        (0.01, 0.0, 300),
        (0.05, 0.0, 300),
        (0.5, 0.0, 200),
        (1.0, 0.0, 200),
        (0.05, 0.05, 2000),
    ):
        found = []
        for _ in range(runs):
            length = 20_000 if rate < 0.02 else 2_000
            ours, theirs = rng.random(length) < rate, rng.random(length) < other
            events, mirrored = np.cumsum(ours & ~theirs), np.cumsum(theirs & ~ours)
            n = np.arange(1, length + 1)
            evidence = np.minimum(rate_above(events, n, RATE), more_often(events, mirrored))
            fail, passed = first(evidence >= FAIL), first(rate_below(events, n, RATE) >= PASS)
            ends = [(at, word) for at, word in ((fail, "fail"), (passed, "pass")) if at]
            found.append((min(ends)[1], min(ends)[0]) if ends else ("inconclusive", length))
        print(_row([f"{rate:.1%}", f"{other:.1%}"], found))


def others() -> None:
    """The same streams judged in other ways: how often each blocks a candidate that is no worse, and one that is."""
    rng = np.random.default_rng(SEED + 2)
    print("\nOther judges on the same streams, 2,000 requests at most, 85 % success (share of runs that block):\n")
    print("| judge | no drop | 3 points | 10 points |\n|---|---|---|---|")
    runs = {drop: [_arms(rng, drop, 2_000) for _ in range(300)] for drop in (0.0, LIMIT, 0.10)}
    for name, judge in _JUDGES.items():
        cells = (f"{np.mean([judge(*arms) for arms in runs[drop]]):.1%}" for drop in runs)
        print(f"| {name} | " + " | ".join(cells) + " |")


def _arms(rng: np.random.Generator, drop: float, length: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Successes of baseline and candidate on the same requests, which differ on about a tenth of them."""
    baseline = rng.random(length) < SUCCESS
    lost = baseline & (rng.random(length) < (0.05 + drop / 2) / SUCCESS)
    won = ~baseline & (rng.random(length) < (0.05 - drop / 2) / (1 - SUCCESS))
    return baseline, (baseline & ~lost) | won


def _sequential(baseline: NDArray[np.bool_], candidate: NDArray[np.bool_]) -> bool:
    kinds = (baseline & ~candidate, baseline == candidate, ~baseline & candidate)
    worse, same, better = (np.cumsum(kind) for kind in kinds)
    return bool((drop_above(worse, same, better, LIMIT) >= FAIL).any())


def _z(baseline: NDArray[np.bool_], candidate: NDArray[np.bool_], n: int) -> bool:
    a, b = baseline[:n].mean(), candidate[:n].mean()
    error = math.sqrt((a * (1 - a) + b * (1 - b)) / n)
    return bool(error > 0 and (a - b - LIMIT) / error > stats.norm.ppf(0.99))


def _mann_whitney(baseline: NDArray[np.bool_], candidate: NDArray[np.bool_], n: int) -> bool:
    arms = candidate[:n].astype(int), baseline[:n].astype(int)
    return bool(stats.mannwhitneyu(*arms, alternative="less").pvalue < 0.01)


def _looking(judge: Callable[..., bool]) -> Callable[..., bool]:
    return lambda baseline, candidate: any(judge(baseline, candidate, n) for n in range(50, 2_001, 50))


_JUDGES: dict[str, Callable[..., bool]] = {
    "e-process, after every request": _sequential,
    "two proportions at 1 %, at 2,000 alone": lambda baseline, candidate: _z(baseline, candidate, 2_000),
    "two proportions at 1 %, every 50": _looking(_z),
    "Mann-Whitney at 1 %, every 50": _looking(_mann_whitney),
}


if __name__ == "__main__":
    drops()
    degeneration()
    others()
