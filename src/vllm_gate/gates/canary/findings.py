"""What a canary has shown, as findings: one for the traffic, and one for each question."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding, Interval, Location
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.canary.means import Origin
from vllm_gate.gates.canary.outcome import Outcome, Side
from vllm_gate.gates.canary.running import DECIDED, Ran
from vllm_gate.judge.canary import (
    ALPHA_FAIL,
    ALPHA_PASS,
    DEGENERATION,
    EXCLUDED_LIMIT,
    TASK_SUCCESS,
    Answer,
    more_needed,
    too_many_excluded,
)
from vllm_gate.judge.rates import rate
from vllm_gate.judge.sequential import drop_interval, mcnemar
from vllm_gate.traffic.request import Tally

_EXAMPLES_SHOWN = 3
_REMEDIES = {
    TASK_SUCCESS: "Read the examples: they name how the candidate fails. Gates 2 to 4 tell whether its numbers, its "
    "structured output or long prompts are to blame; keep the release before until they are explained.",
    DEGENERATION: "The candidate loops or goes silent where the baseline does not: suspect quantisation, the dtype "
    "of the KV cache or a kernel; gate 2 measures by how much the numbers moved.",
    "transport": "Read the candidate's log for the requests that it left unanswered; compare its limits "
    "(max_model_len, max_num_seqs, time-outs) with the baseline's.",
}


def findings_of(ran: Ran, traffic: Origin, ratio: float, where: dict[str, Location | None]) -> Iterator[Finding]:
    """The findings, the traffic's first. `where` holds the place of each question's limit."""
    yield _of_traffic(ran, traffic)
    for answer in ran.course.answers:
        yield _of_question(ran, answer, ratio, where.get(answer.question))


def _of_traffic(ran: Ran, traffic: Origin) -> Finding:
    counts, sampler = ran.course.counts, ran.sampler
    finding = partial(
        Finding,
        check="traffic",
        measured=float(counts.excluded / (counts.pairs + counts.excluded)) if counts.pairs + counts.excluded else None,
        threshold=EXCLUDED_LIMIT,
        unit="share without an answer of the baseline",
        samples=counts.pairs + counts.excluded or None,
        evidence=(Evidence(EvidenceKind.NOTE, "the traffic", _told_of_traffic(ran, traffic.tally)),),
    )
    asked = f"{counts.pairs:,} pairs of {sampler.seen:,} requests in {traffic.name}; it ended because {ran.ended}"
    if ran.problem is not None:
        remedy = ran.problem.hint or "correct that, and go on with --resume"
        message = f"the canary broke off after {counts.pairs:,} pairs: {ran.problem}"
        return finding(verdict=Verdict.ERROR, symptom="broke_off", message=message, remedy=remedy)
    if too_many_excluded(counts):
        why = ", ".join(f"{count} × {reason}" for reason, count in ran.tallies.excluded.most_common(3))
        return finding(
            verdict=Verdict.INCONCLUSIVE,
            symptom="baseline_unanswered",
            message=f"the baseline left {counts.excluded:,} of {counts.pairs + counts.excluded:,} requests unanswered "
            f"({why}), so the pairs that are left may not stand for the traffic; {asked}",
            remedy="Give the canary a baseline that keeps up: lower gate_5_shadow_canary.concurrency, or raise its "
            "timeout_sec.",
        )
    if not counts.pairs:
        return finding(
            verdict=Verdict.INCONCLUSIVE,
            symptom="no_traffic",
            message=f"no request could be shadowed: {sampler.seen:,} in {traffic.name}, of which the sample holds "
            f"{sampler.size:,}",
            remedy="Give more traffic, or raise gate_5_shadow_canary.traffic_ratio.",
        )
    bad = traffic.tally.bad
    warning = f"{bad} rows could not be read; the first: {_first_bad(traffic.tally)}" if bad else ""
    return finding(verdict=Verdict.PASS, message=asked, warning=warning)


def _of_question(ran: Ran, answer: Answer, ratio: float, where: Location | None) -> Finding:
    verdict, counts = answer.verdict, ran.course.counts
    finding = partial(
        Finding,
        check=answer.question,
        verdict=verdict,
        measured=None if math.isnan(answer.observed) else answer.observed,
        threshold=answer.limit,
        unit="absolute drop of task success" if answer.question == TASK_SUCCESS else "share of pairs",
        samples=counts.pairs or None,
        interval=_interval(ran, answer) if counts.pairs else None,
    )
    observed = _observed(ran, answer)
    if verdict is Verdict.PASS:
        return finding(message=f"{observed}; more than {_limit(answer)} is excluded (α = {ALPHA_PASS:g})")
    evidence = (_curve(ran, answer), *_examples(ran, answer))
    if verdict is Verdict.FAIL:
        message = f"{observed}; up to {_limit(answer)} is allowed, and that is excluded (α = {ALPHA_FAIL:g})"
        return finding(
            message=f"{message} after {counts.pairs:,} pairs",
            symptom=_symptom(ran, answer),
            evidence=evidence,
            location=where,
            remedy=_REMEDIES[answer.question],
        )
    more = "Give more traffic, or raise max_requests or traffic_ratio, and go on with --resume."
    return finding(
        message=f"{observed}; {_missing(ran, answer, ratio)}",
        symptom="too_few_requests",
        evidence=evidence[:1],
        location=where,
        remedy="" if ran.course.verdict is Verdict.FAIL else more,
    )


def _observed(ran: Ran, answer: Answer) -> str:
    counts = ran.course.counts
    if answer.question == TASK_SUCCESS:
        return (
            f"of {counts.pairs:,} requests the candidate fails {counts.worse:,} that the baseline serves, and serves "
            f"{counts.better:,} that it fails"
        )
    if answer.question == DEGENERATION:
        return (
            f"of {counts.pairs:,} answers {counts.degenerate:,} degenerate where the baseline's do not, and "
            f"{counts.recovered:,} the other way round"
        )
    return f"of {counts.pairs:,} requests that the baseline answers the candidate leaves {counts.unanswered:,} open"


def _missing(ran: Ran, answer: Answer, ratio: float) -> str:
    """How much more is needed, in pairs and in traffic."""
    if ran.course.verdict is Verdict.FAIL:
        return "not known yet when another question failed"
    more = more_needed(ran.course.counts, answer)
    if more is None:
        return "as it goes, no number of requests would show that this keeps its limit"
    traffic = f", which a sample of {ratio:.4g} draws from about {_round(more / ratio):,} requests" if ratio < 1 else ""
    ended = f"; it ended because {ran.ended}" if ran.ended not in ("", DECIDED) else ""
    return f"about {_round(more):,} more requests are needed to know{traffic}{ended}"


def _round(count: float) -> int:
    """To two digits: more would claim too much."""
    digits = max(len(str(math.ceil(count))) - 2, 0)
    step = int(10**digits)
    return math.ceil(count / step) * step


def _limit(answer: Answer) -> str:
    return f"{100 * answer.limit:g} points" if answer.question == TASK_SUCCESS else f"{answer.limit:.3%}"


def _interval(ran: Ran, answer: Answer) -> Interval:
    """At any time for the drop; exact binomial for shares."""
    counts = ran.course.counts
    if answer.question == TASK_SUCCESS:
        return Interval(*drop_interval(counts.worse, counts.same, counts.better))
    events = counts.degenerate if answer.question == DEGENERATION else counts.unanswered
    return rate(events, counts.pairs).interval


def _symptom(ran: Ran, answer: Answer) -> str:
    """The most frequent way in which the candidate fails more often than the baseline."""
    ours, theirs = ran.tallies.candidate.signals, ran.tallies.baseline.signals
    excess = {signal: count - theirs[signal] for signal, count in ours.items()}
    wanted = {DEGENERATION: "degenerate:", "transport": "unanswered:"}.get(answer.question, "")
    chosen = [signal for signal in excess if signal.startswith(wanted)]
    worst = max(chosen, key=lambda signal: excess[signal], default=answer.question)
    return worst.rpartition(":")[2] if wanted or worst.startswith("degenerate:") else worst


def _curve(ran: Ran, answer: Answer) -> Evidence:
    """The e-process over requests, from now back to the first pair by halves; its bars are 1/α."""
    counts = ran.course.counts
    rows = []
    if answer.question == TASK_SUCCESS:
        rows.append(f"McNemar, exact, two-sided: p = {mcnemar(counts.worse, counts.better):.3g}")
    rows.append(f"{'pairs':>9}  {'observed':>9}  {'ln E fail':>9}  {'ln E pass':>9}")
    shown = math.inf
    for point in reversed(ran.course.curve):
        if point.counts.pairs > shown / 2:
            continue
        shown = point.counts.pairs
        state = next(state for state in point.answers if state.question == answer.question)
        evidence = f"{state.evidence_fail:>9.2f}  {state.evidence_pass:>9.2f}"
        rows.append(f"{point.counts.pairs:>9,}  {state.observed:>9.4f}  {evidence}")
    bars = f"fails at {math.log(1 / ALPHA_FAIL):.2f}, passes at {math.log(1 / ALPHA_PASS):.2f}"
    return Evidence(EvidenceKind.NOTE, f"evidence over requests, the latest first ({bars})", "\n".join(rows))


def _examples(ran: Ran, answer: Answer) -> Iterator[Evidence]:
    wanted = {DEGENERATION: "degenerate:", "transport": "unanswered:"}.get(answer.question, "")
    telling = [one for one in ran.tallies.examples if any(s.startswith(wanted) for s in one.candidate.failed)]
    for example in telling[:_EXAMPLES_SHOWN]:
        yield Evidence(EvidenceKind.RESPONSE, _named(example), _shown(example))


def _named(example: Outcome) -> str:
    place = f", line {example.line} of the traffic" if example.line else ""
    return f"request {example.number} of the sample{place}: {', '.join(example.candidate.failed)}"


def _shown(example: Outcome) -> str:
    def side(name: str, side: Side) -> str:
        ended = f" ({side.finish_reason})" if side.finish_reason else ""
        return f"{name}{ended}: {side.said or '–'}"

    asked = f"asked: {example.asked or '–'}"
    return "\n".join((asked, side("candidate", example.candidate), side("baseline", example.baseline)))


def _told_of_traffic(ran: Ran, tally: Tally) -> str:
    sampler = ran.sampler
    lines = [
        f"requests read: {sampler.seen:,}; in the sample: {sampler.size:,}",
        f"left out because their conversation is in the sample already: {sampler.repeated:,}",
    ]
    lines += [f"not replayed: {count:,} × {reason}" for reason, count in sorted(tally.skipped.items())]
    lines += [f"line {line}: {reason}" for line, reason in tally.first_bad]
    lines += [f"excluded: {count:,} × {reason}" for reason, count in ran.tallies.excluded.most_common()]
    lines.append(f"tokens: candidate {ran.tallies.candidate.tokens:,}, baseline {ran.tallies.baseline.tokens:,}")
    if ran.resumed:
        lines.append(f"taken from the journal of an earlier run: {ran.resumed:,}")
    return "\n".join(lines)


def _first_bad(tally: Tally) -> str:
    line, reason = tally.first_bad[0]
    return f"line {line}: {reason}"


def facts_of(ran: Ran, tally: Tally) -> dict[str, object]:
    """The canary's numbers for report.json, the whole curve included."""
    counts, tallies = ran.course.counts, ran.tallies
    sides = {"candidate": tallies.candidate, "baseline": tallies.baseline}
    return {
        "counts": {name: getattr(counts, name) for name in counts.__slots__},
        "sample": {"read": ran.sampler.seen, "size": ran.sampler.size, "repeated": ran.sampler.repeated},
        "traffic": {"requests": tally.requests, "skipped": dict(sorted(tally.skipped.items()))},
        "ended": ran.ended,
        "resumed": ran.resumed,
        "mcnemar_p": mcnemar(counts.worse, counts.better),
        **{
            name: {
                "failed": side.failed,
                "degenerate": side.degenerate,
                "signals": dict(side.signals.most_common()),
                "tokens": side.tokens,
                "seconds_p50": side.seconds.at(0.5),
                "seconds_p95": side.seconds.at(0.95),
            }
            for name, side in sides.items()
        },
        "curve": [
            {
                "pairs": point.counts.pairs,
                **{
                    state.question: [state.observed, round(state.evidence_fail, 3), round(state.evidence_pass, 3)]
                    for state in point.answers
                },
            }
            for point in ran.course.curve
            if point.counts.pairs
        ],
    }
