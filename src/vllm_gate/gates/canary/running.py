"""The canary itself: sample, ask both sides, judge after every pair, stop as soon as enough is known."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from vllm_gate.config.plan import ShadowCanarySettings
from vllm_gate.errors import CouldNotJudge, FileProblem
from vllm_gate.gates.canary.in_order import Pace, in_order
from vllm_gate.gates.canary.means import Means, TrafficSource
from vllm_gate.gates.canary.outcome import EXCLUDED, Outcome
from vllm_gate.gates.canary.pairing import Pair
from vllm_gate.gates.canary.tallies import Tallies
from vllm_gate.judge.canary import Limits
from vllm_gate.judge.canary_course import Course
from vllm_gate.traffic.request import Skipped, TrafficRequest
from vllm_gate.traffic.sampling import Sampled, Sampler

_SILENT = 20
"""Requests in a row that the baseline does not answer, after which it is taken for dead."""
DECIDED = "enough is known"


@dataclass(slots=True, kw_only=True)
class Ran:
    """How far a canary came, and why it ended. `problem` is what kept it from going on."""

    course: Course
    sampler: Sampler
    tallies: Tallies = field(default_factory=Tallies)
    ended: str = ""
    exhausted: str = ""
    """Why no more requests come, while the last ones may still be under way."""
    problem: CouldNotJudge | FileProblem | None = None
    resumed: int = 0
    """Outcomes that an earlier run had found out."""
    last: Outcome | None = None

    def add(self, outcome: Outcome) -> None:
        """Take in the next outcome of the sample."""
        self.last = outcome
        self.course.add(outcome.counts())
        self.tallies.add(outcome)


def limits_of(settings: ShadowCanarySettings) -> Limits:
    """What the candidate may do."""
    return Limits(success_drop=settings.task_success_drop_threshold, degeneration=settings.degeneration_rate_threshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """What to ask of whom, and for how long. `recorded`: the answers in the log stand for the baseline."""

    settings: ShadowCanarySettings
    means: Means
    traffic: TrafficSource
    ask: Callable[[Sampled], Pair]
    salt: str
    recorded: bool
    now: Callable[[], float]
    progress: Callable[..., None]

    def run(self) -> Ran:
        """Ask until enough is known, or until traffic or a budget ends. The result tells what kept it from going on."""
        settings, means = self.settings, self.means
        sampler = Sampler(
            settings.traffic_ratio,
            salt=self.salt,
            per_conversation=settings.max_per_conversation,
            shard=means.shard,
            shards=means.shards,
        )
        ran = Ran(course=Course(limits_of(settings)), sampler=sampler)
        try:
            for outcome in means.journal.before():
                ran.add(outcome)
            ran.resumed = ran.course.counts.pairs + ran.course.counts.excluded
            if ran.course.ended:
                ran.ended = DECIDED
            else:
                self._ask_on(ran)
        except (CouldNotJudge, FileProblem) as problem:
            ran.problem = problem
        ran.course.mark()
        return ran

    def _ask_on(self, ran: Ran) -> None:
        settings, traffic = self.settings, self.traffic
        pace = Pace(settings.concurrency)
        deadline = self.now() + settings.max_duration_sec
        silent = 0
        with (
            closing(_with_answers(traffic) if self.recorded else traffic.requests()) as requests,
            closing(in_order(self._sample(requests, ran, deadline), self.ask, pace, settings.concurrency)) as pairs,
        ):
            for pair in pairs:
                (pace.struggled if pair.struggled else pace.went_well)()
                self.means.journal.add(pair.outcome)
                ran.add(pair.outcome)
                silent = silent + 1 if pair.outcome.result == EXCLUDED else 0
                total = -(-settings.max_requests // self.means.shards)
                self.progress(_told(ran), ran.course.counts.pairs, total, "pairs")
                ran.ended = self._end(ran, silent, deadline)
                if ran.ended:
                    return
        ran.ended = ran.exhausted or f"the traffic ({traffic.name}) is at its end"

    def _end(self, ran: Ran, silent: int, deadline: float) -> str:
        """Why to ask no more; empty to go on."""
        settings = self.settings
        if ran.course.ended:
            return DECIDED
        if silent >= _SILENT:
            return f"the baseline left {silent} requests in a row unanswered"
        if self.now() > deadline:
            return f"max_duration_sec ({settings.max_duration_sec:g} s) is over"
        if settings.max_total_tokens and ran.tallies.tokens >= settings.max_total_tokens:
            return f"max_total_tokens ({settings.max_total_tokens:,}) are used up"
        return ""

    def _sample(self, requests: Iterator[TrafficRequest | None], ran: Ran, deadline: float) -> Iterator[Sampled | None]:
        """The sample from where an earlier run stopped. What ends it early is written to `ran.exhausted`."""
        last = ran.last
        first = last.number + 1 if last else 0
        offset = first if not self.traffic.repeatable else 0
        for request in requests:
            if self.now() > deadline:
                ran.exhausted = f"max_duration_sec ({self.settings.max_duration_sec:g} s) is over"
                return
            found = ran.sampler.take(request) if request else None
            if ran.sampler.size + offset > self.settings.max_requests:
                ran.exhausted = f"max_requests ({self.settings.max_requests:,}) are reached"
                return
            if found is None:
                if request is None:
                    yield None
                continue
            sampled = Sampled(found.number + offset, found.request)
            if last and sampled.number == last.number and sampled.key != last.key:
                raise _other_traffic(self.traffic)
            if sampled.number >= first:
                yield sampled
        if ran.sampler.size + offset < first:
            raise _other_traffic(self.traffic)


def _with_answers(traffic: TrafficSource) -> Generator[TrafficRequest | None]:
    """The requests whose answer was recorded; the others are counted."""
    for request in traffic.requests():
        if request is None or request.recorded is not None:
            yield request
        else:
            traffic.tally.skip(Skipped("no recorded answer", request.line))


def _other_traffic(traffic: TrafficSource) -> FileProblem:
    return FileProblem(
        f"{traffic.name} is not the traffic that the journal was begun with",
        hint="go on with the same files in the same order, or begin a new journal",
    )


def _told(ran: Ran) -> str:
    counts = ran.course.counts
    return f"shadow requests ({counts.worse} worse, {counts.better} better, {counts.degenerate} degenerate)"
