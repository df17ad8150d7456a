"""How long judging a million positions takes on one core, and the memory of it: measures, interval, tail, agreement.

The positions are made up: 15,625 prompts × 64 positions with k = 20 tokens of 32,000 each; the other side the same
with noise, and with a few tokens of its own.

bench/run judge_speed      # exit 1 above 10 s of processor time or a peak of 1 GiB, the positions themselves included
"""

from __future__ import annotations

import resource
import time
from dataclasses import replace

import numpy as np

from vllm_gate.judge.bootstrap import clustered_mean
from vllm_gate.judge.drift import drift
from vllm_gate.judge.drift_verdict import judge_mean, judge_tail
from vllm_gate.judge.positions import Positions

PROMPTS, LENGTH, K, VOCABULARY = 15_625, 64, 20, 32_000
MOST_S, MOST_MIB = 10.0, 1024.0
TOLERANCE = 0.02


def made_up(rng: np.random.Generator) -> tuple[Positions, Positions]:
    """Both sides of a million positions, filled in place so that making them costs no more memory than they do."""
    n = PROMPTS * LENGTH
    ids = np.empty((n, K), dtype=np.int32)
    logprobs = np.empty((n, K))
    for at in range(0, n, 50_000):
        rows = slice(at, at + 50_000)
        size = ids[rows].shape[0]
        first = rng.integers(0, VOCABULARY, size)[:, None]
        ids[rows] = (first + 97 * np.arange(K)) % VOCABULARY
        steps = -np.cumsum(rng.exponential(0.6, (size, K)), axis=1)
        logprobs[rows] = steps - np.log(np.exp(steps).sum(axis=1, keepdims=True)) - 0.05
    a = Positions(ids, logprobs, ids[:, 0].copy(), logprobs[:, 0].copy())
    other_ids, other_logprobs = ids.copy(), logprobs.copy()
    other_ids[::3, K - 1] = (other_ids[::3, K - 1] + 1) % VOCABULARY
    for at in range(0, n, 50_000):
        other_logprobs[at : at + 50_000] += rng.normal(0, 0.01, (min(50_000, n - at), K))
    return a, replace(a, ids=other_ids, logprobs=other_logprobs, target_logprob=other_logprobs[:, 0].copy())


def main() -> int:
    """Print processor seconds of each step, and the process's peak memory before and after."""
    rng = np.random.default_rng(0)
    a, b = made_up(rng)
    clusters = np.repeat(np.arange(PROMPTS), LENGTH)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.process_time()
    found = drift(a, b)
    measured = time.process_time()
    mean = clustered_mean(found.total_variation, clusters, rng)
    perplexity = clustered_mean(found.nll_change, clusters, rng)
    verdicts = judge_mean(mean, TOLERANCE, 0.0), judge_tail(found, found.total_variation / 2)
    shares = [np.quantile(values, [0.5, 0.99, 0.999]) for values in (found.total_variation, found.kl)]
    agreement, overlap = found.agreement(), found.overlap.mean()
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(a)} positions, k = {K}: {seconds:.1f} s ({measured - start:.1f} s of it the measures)")
    print(f"peak memory {peak:.0f} MiB, of which the positions and Python {before:.0f} MiB")
    print(
        f"TV {mean.mean:.4f} ({verdicts[0].verdict}, tail {verdicts[1].verdict}, 99.9 % {shares[0][2]:.4f}), "
        f"agreement {agreement:.4f}, overlap {overlap:.3f}, NLL change {perplexity.mean:.5f}"
    )
    return int(seconds > MOST_S or peak > MOST_MIB)


if __name__ == "__main__":
    raise SystemExit(main())
