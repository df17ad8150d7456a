"""Gate 5 from the journals of its shards: nothing is asked again.

The outcomes are put back into the order of the sample and judged one by one, so that the verdict is the one that a
single run with the same outcomes would have given, bit for bit.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vllm_gate.app.canary import header_of
from vllm_gate.app.journal import differing, outcomes, read_header
from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Finding
from vllm_gate.errors import FileProblem
from vllm_gate.gates.canary.findings import facts_of, findings_of
from vllm_gate.gates.canary.running import DECIDED, Ran, limits_of
from vllm_gate.gates.interface import Check, Context
from vllm_gate.gates.shadow_canary import ShadowCanary, places
from vllm_gate.judge.canary_course import Course
from vllm_gate.traffic.request import Tally
from vllm_gate.traffic.sampling import Sampler


class MergedCanary(ShadowCanary):
    """See the module. Raises FileProblem for journals that are not shards of this plan's canary.

    A folder among `paths` stands for the journals in it.
    """

    def __init__(self, plan: Plan, paths: Sequence[Path]) -> None:
        paths = [journal for path in paths for journal in _journals(path)]
        self._paths = paths
        self.name = f"{len(paths)} journals"
        self.tally = Tally()
        self._missing = _missing_shards(plan, paths)

    def checks(self, plan: Plan) -> Sequence[Check]:
        """See `Gate`."""
        return (Check("traffic", self._merge),)

    def _merge(self, context: Context) -> Iterator[Finding]:
        settings = context.plan.gates.shadow_canary
        sampler = Sampler(settings.traffic_ratio)
        ran = Ran(course=Course(limits_of(settings)), sampler=sampler)
        for outcome in _in_order(self._paths):
            ran.add(outcome)
            sampler.size = sampler.seen = outcome.number + 1
            if ran.course.ended:
                ran.ended = DECIDED
                break
        ran.course.mark()
        ran.ended = ran.ended or f"that is all the journals hold{self._missing}"
        context.facts["canary"] = facts_of(ran, self.tally)
        yield from findings_of(ran, self, settings.traffic_ratio, places(context.plan))


def _journals(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    if found := sorted(path.glob("*.jsonl")):
        return found
    raise FileProblem(f"{path}: there is no journal (*.jsonl) in this folder")


def _missing_shards(plan: Plan, paths: Sequence[Path]) -> str:
    """Words for the shards that no journal is of. Raises FileProblem for a journal that does not belong."""
    found: dict[int, Path] = {}
    number = 1
    for path in paths:
        header = _header(path)
        shard, shards = header.get("shard", (0, 1))
        if found and shards != number:
            raise FileProblem(f"{path}: one of {shards} shards, where the others are of {number}")
        if changed := differing(header, header_of(plan, shard, shards)):
            raise FileProblem(
                f"{path}: this journal was begun with another {changed}",
                hint="merge with the settings and config that the shards ran with",
            )
        if shard in found:
            raise FileProblem(f"{path}: the same shard as {found[shard]}: its outcomes would count twice")
        found[shard], number = path, shards
    missing = [str(shard + 1) for shard in range(number) if shard not in found]
    return f" (no journal of shard {', '.join(missing)} of {number})" if missing else ""


def _header(path: Path) -> dict[str, Any]:
    with _opened(path) as file:
        return read_header(file, path)


def _in_order(paths: Sequence[Path]) -> Iterator[Any]:
    with ExitStack() as stack:
        streams = []
        for path in paths:
            file = stack.enter_context(_opened(path))
            read_header(file, path)
            streams.append(outcomes(file, path))
        last = -1
        for outcome in heapq.merge(*streams, key=lambda outcome: outcome.number):
            if outcome.number == last:
                raise FileProblem(f"request {last} stands in two journals: its outcome would count twice")
            last = outcome.number
            yield outcome


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as problem:
        raise FileProblem(f"{path}: the journal can't be read: {problem.strerror}") from problem
