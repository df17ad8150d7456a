"""How often gate 2 is wrong: false alarms on healthy servers, and what it takes to see a change the size of int8.

    .venv/bin/python bench/gate2_study.py          # a few minutes; writes bench/results and the plot of the docs

The simulator's model is used without HTTP: two sets of weights, TP 2 to 8, two batch sizes. A run draws 32 of the 75
shipped prompts; runs of one server share its prompts, so they are not wholly independent. Every detector gets the
same data and is calibrated on the same healthy runs to one false alarm in a hundred, then asked to see the faults.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.consistency.tracing import prompts
from vllm_gate.judge.bootstrap import clustered_mean
from vllm_gate.judge.drift import Drift, drift
from vllm_gate.judge.drift_verdict import is_changed, judge_mean, judge_tail
from vllm_gate.judge.positions import Positions
from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.model import LanguageModel
from vllm_gate.simulator.numerics import log_softmax
from vllm_gate.simulator.tokenizer import tokenizer

LENGTH, K, TOLERANCE = 64, 20, 0.02
SEEDS, SIZES, BATCHES = (0, 1), (2, 4, 8), (1, 8)
RUNS_A_SERVER = 30
HERE = Path(__file__).parent
FAULTS = ("noise:0.01", "noise:0.02", "noise:0.05", "int8_weights", "fp8_kv_long:32", "one_rank_dead", "tp_only")


@dataclass(frozen=True, eq=False)
class Side:
    """One server on all prompts: positions and greedy texts, by prompt."""

    forced: list[Positions]
    texts: list[list[int]]


def model(seed: int, tp: int, fault: str = "") -> LanguageModel:
    return LanguageModel(tokenizer().size, seed, tp, Faults((fault,) if fault else ()))


def continuation(of: LanguageModel, ids: list[int], length: int, request: int) -> list[int]:
    said = list(ids)
    for _ in range(length):
        said.append(int(of.logits(said, positions=slice(-1, None), request=request)[0].argmax()))
    return said[len(ids) :]


def positions(of: LanguageModel, ids: list[int], start: int, batch: int, request: int) -> Positions:
    rows = log_softmax(of.logits(ids[:-1], positions=slice(start - 1, None), batch=batch, request=request))
    best = np.argsort(-rows, axis=1)[:, :K]
    target = np.array(ids[start:], dtype=np.int32)
    return Positions(
        best.astype(np.int32), np.take_along_axis(rows, best, axis=1), target, rows[np.arange(len(target)), target]
    )


def side(of: LanguageModel, led: Sequence[tuple[list[int], list[int]]], batch: int, texts: bool) -> Side:
    forced = [positions(of, head + tail, len(head), batch, n) for n, (head, tail) in enumerate(led)]
    return Side(forced, [continuation(of, head, LENGTH, n) for n, (head, _) in enumerate(led)] if texts else [])


@dataclass(frozen=True, eq=False)
class Pair:
    """A reference and a candidate: drift by prompt, and what the rival methods look at."""

    drifts: list[Drift]
    floors: list[Drift]
    chosen: list[np.ndarray]
    first_token: list[float]
    same_text: list[bool]
    outside_top_k: list[bool]


def pair(reference: Side, again: Side, candidate: Side) -> Pair:
    drifts = [drift(a, b) for a, b in zip(reference.forced, candidate.forced, strict=True)]
    apart = [_first_difference(a, b) for a, b in zip(reference.texts, candidate.texts, strict=True)]
    outside = []
    for a, b, text_a, text_b, at in zip(
        reference.forced, candidate.forced, reference.texts, candidate.texts, apart, strict=True
    ):
        # vLLM's own rule: at the first different token, each must be among the other's five best.
        outside.append(at is not None and (text_b[at] not in a.ids[at, :5] or text_a[at] not in b.ids[at, :5]))
    return Pair(
        drifts=drifts,
        floors=[drift(a, b) for a, b in zip(reference.forced, again.forced, strict=True)],
        chosen=[np.abs(d.nll_change) for d in drifts],
        first_token=[float(d.weighted_logprob[0]) for d in drifts],
        same_text=[at is None for at in apart],
        outside_top_k=outside,
    )


def _first_difference(a: list[int], b: list[int]) -> int | None:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), None)


def verdict(of: Pair, drawn: np.ndarray, rng: np.random.Generator) -> tuple[Verdict, bool]:
    """Gate 2's own verdict on some prompts, and whether it sees a change (a warning where the verdict is a pass)."""
    values = np.concatenate([of.drifts[n].total_variation for n in drawn])
    floor = np.concatenate([of.floors[n].total_variation for n in drawn])
    clusters = np.repeat(np.arange(len(drawn)), LENGTH)
    whole = Drift(*(np.concatenate([getattr(of.drifts[n], f) for n in drawn]) for f in Drift.__dataclass_fields__))
    measured, noise = clustered_mean(values, clusters, rng), clustered_mean(floor, clusters, rng)
    changed = is_changed(measured, noise)
    if judge_tail(whole, floor).verdict is Verdict.FAIL:
        return Verdict.FAIL, changed
    return judge_mean(measured, TOLERANCE, noise.mean).verdict, changed


def statistics(of: Pair, drawn: np.ndarray, length: int) -> Mapping[str, float]:
    """Every detector's number on the same requests; larger means more changed."""
    return {
        "mean total variation (ours)": float(np.mean([of.drifts[n].total_variation[:length].mean() for n in drawn])),
        "chosen token's logprob": float(np.mean([of.chosen[n][:length].mean() for n in drawn])),
        "greedy text differs": float(np.mean([not of.same_text[n] for n in drawn])),
        "first difference outside top 5": float(np.mean([of.outside_top_k[n] for n in drawn])),
        "one prompt, one token": float(of.first_token[drawn[0]]),
    }


def main() -> None:
    started = time.perf_counter()
    rng = np.random.default_rng(2026)
    heads = [tokenizer().encode(text) for _, text in prompts()]
    healthy: list[Pair] = []
    faulty: dict[str, list[Pair]] = {fault: [] for fault in FAULTS}
    for seed in SEEDS:
        base = model(seed, 1)
        led = [(head, continuation(base, head, LENGTH, n)) for n, head in enumerate(heads)]
        reference = Side([positions(base, h + t, len(h), 1, n) for n, (h, t) in enumerate(led)], [t for _, t in led])
        again = side(base, led, 8, texts=False)
        healthy += [
            pair(reference, again, side(model(seed, tp), led, batch, texts=True)) for tp in SIZES for batch in BATCHES
        ]
        for fault in FAULTS:
            faulty[fault].append(pair(reference, again, side(model(seed, 4, fault), led, 1, texts=True)))
        print(f"seed {seed} done after {time.perf_counter() - started:.0f} s", flush=True)
    result = {
        "healthy_runs": len(healthy) * RUNS_A_SERVER,
        "verdicts": _verdicts(healthy, faulty, rng),
        "kl_of_int8": float(np.mean([d.kl.mean() for p in faulty["int8_weights"] for d in p.drifts])),
        "power_for_int8": _power(healthy, faulty["int8_weights"], rng),
        "seconds": 0.0,
    }
    result["seconds"] = round(time.perf_counter() - started, 1)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "gate2_study.json").write_text(json.dumps(result, indent=1) + "\n")
    _plot(result)
    print(json.dumps(result, indent=1))


def _verdicts(
    healthy: Sequence[Pair], faulty: Mapping[str, Sequence[Pair]], rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    table = {}
    for name, pairs in {"healthy": healthy, **faulty}.items():
        runs = [
            verdict(of, rng.choice(len(of.drifts), 32, replace=False), rng)
            for of in pairs
            for _ in range(RUNS_A_SERVER)
        ]
        verdicts = [one for one, _ in runs]
        counted = (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE)
        table[name] = {one.value: round(verdicts.count(one) / len(runs), 4) for one in counted}
        table[name]["changed"] = round(sum(changed for _, changed in runs) / len(runs), 4)
        means = [d.total_variation.mean() for of in pairs for d in of.drifts]
        table[name] |= {"mean_total_variation": round(float(np.mean(means)), 5), "runs": len(runs)}
    return table


def _power(healthy: Sequence[Pair], changed: Sequence[Pair], rng: np.random.Generator) -> list[dict[str, object]]:
    """Share of runs in which each detector sees int8 rounding, at one false alarm in a hundred."""
    rows: list[dict[str, object]] = []
    for requests in (5, 10, 20, 50):
        for length in (8, 32, 64):
            draw = lambda of: statistics(of, rng.choice(len(of.drifts), requests, replace=False), length)  # noqa: E731, B023
            calm = [draw(of) for of in healthy for _ in range(100)]
            seen = [draw(of) for of in changed for _ in range(200)]
            limits = {name: float(np.quantile([row[name] for row in calm], 0.99)) for name in calm[0]}
            rows.append(
                {
                    "requests": requests,
                    "positions": requests * length,
                    **{name: round(float(np.mean([row[name] > limits[name] for row in seen])), 3) for name in limits},
                }
            )
    return rows


def _plot(result: Mapping[str, object]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    rows = result["power_for_int8"]
    assert isinstance(rows, list)
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for name in [key for key in rows[0] if key not in ("requests", "positions")]:
        points = [(row["requests"], row[name]) for row in rows if row["positions"] == 32 * row["requests"]]
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xlabel="requests (32 scored positions each)", ylabel="share of runs that see int8 rounding")
    axes.set(ylim=(-0.02, 1.02), xticks=[5, 10, 20, 50])
    axes.set_title(f"At one false alarm in a hundred ({result['healthy_runs']} healthy runs)", fontsize=10)
    axes.legend(fontsize=8)
    images = HERE.parent / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    figure.savefig(images / "gate2-power.png", dpi=130)


if __name__ == "__main__":
    main()
