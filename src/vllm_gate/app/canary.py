"""What the shadow canary needs from outside, from the options of a run: traffic, journal, commands, shard."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from vllm_gate.app.journal import JournalFile
from vllm_gate.app.run import secrets_of
from vllm_gate.app.traffic import open_traffic
from vllm_gate.app.validator_commands import ValidatorCommands
from vllm_gate.config.plan import Plan, TrafficSettings
from vllm_gate.errors import FileProblem, UsageError
from vllm_gate.gates.canary.means import Means, TrafficSource, no_command
from vllm_gate.gates.canary.running import limits_of
from vllm_gate.traffic.mirror import MirrorListener
from vllm_gate.traffic.reading import read_traffic
from vllm_gate.traffic.request import Tally, TrafficRequest

JOURNAL = "canary.jsonl"


def add_canary_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of gate 5."""
    parser.add_argument(
        "--traffic",
        type=Path,
        action="append",
        default=[],
        help="traffic log to replay (again for more), instead of config's",
    )
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="take the I-th of N shares of the sample")
    add_resume_argument(parser)


def add_resume_argument(parser: argparse.ArgumentParser) -> None:
    """The option to go on."""
    parser.add_argument("--resume", action="store_true", help="go on with the journal of a canary that broke off")


def with_traffic(plan: Plan, paths: Sequence[Path] = (), *, listen: str = "") -> Plan:
    """The plan with the traffic that the command line names. Raises FileProblem for a log that is not there."""
    if paths or listen:
        plan = replace(plan, traffic=replace(plan.traffic, log=tuple(map(str, paths)), listen=listen))
    for path in plan.traffic.log:
        if not Path(path).is_file():
            raise FileProblem(f"{path}: there is no such traffic log", hint=f"paths are taken from {Path.cwd()}")
    return plan


@contextmanager
def means_for(
    plan: Plan,
    environ: Mapping[str, str],
    *,
    journal: Path,
    shard: str = "1/1",
    resume: bool = False,
    commands: bool = True,
) -> Iterator[Means]:
    """Everything opened, and closed again. `commands` False: validators that are commands are not run.

    Raises UsageError for a shard that does not exist or an address that can't be listened on, and FileProblem.
    """
    part, parts = shard_from(shard)
    if not plan.gates.shadow_canary.enabled or not (plan.traffic.log or plan.traffic.listen):
        yield Means()
        return
    with ExitStack() as opened:
        traffic = _traffic(plan.traffic, opened)
        kept = opened.enter_context(closing(JournalFile(journal, header_of(plan, part, parts), resume=resume)))
        validators = opened.enter_context(closing(ValidatorCommands(environ, secrets_of(plan))))
        yield Means(
            traffic=traffic,
            journal=kept,
            run_command=validators if commands else no_command,
            shard=part,
            shards=parts,
        )


def _traffic(settings: TrafficSettings, opened: ExitStack) -> TrafficSource:
    if not settings.listen:
        return TrafficFiles(settings.log)
    mirror = opened.enter_context(closing(MirrorListener(settings.listen)))
    print(f"listening on {mirror.address} for copies of requests", file=sys.stderr, flush=True)
    return mirror


def shard_from(text: str) -> tuple[int, int]:
    """(shard counted from 0, number of shards) of `I/N`. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text.strip())
    part, parts = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= part <= parts:
        raise UsageError(f"--shard {text}: there is no such shard", hint="write I/N with I from 1 to N, as in 2/4")
    return part - 1, parts


def header_of(plan: Plan, shard: int, shards: int) -> dict[str, Any]:
    """What makes a journal this canary's."""
    settings = plan.gates.shadow_canary
    services = {
        name: service.model
        for name, service in plan.services.items()
        if name == "under_test" or (name == "baseline" and plan.traffic.answers == "live")
    }
    return {
        "sample": {
            "traffic_ratio": settings.traffic_ratio,
            "salt": plan.traffic.salt,
            "max_per_conversation": settings.max_per_conversation,
        },
        "limits": asdict(limits_of(settings)),
        "services": services,
        "validators": [validator.name for validator in settings.validators],
        "shard": [shard, shards],
    }


class TrafficFiles:
    """See `TrafficSource`: logs, one after the other, read as a stream."""

    repeatable = True

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        self.name = paths[0] if len(paths) == 1 else f"{len(paths)} logs"
        self.tally = Tally()

    def requests(self) -> Generator[TrafficRequest | None]:
        """See `TrafficSource`."""
        for path in self._paths:
            with open_traffic(Path(path)) as lines:
                yield from read_traffic(lines, path, self.tally)
