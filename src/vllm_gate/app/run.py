"""One run, from two files to a report: load, connect, ask, decide, write. The front doors call nothing else."""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from vllm_gate import __version__
from vllm_gate.advisories.matching import rank_causes
from vllm_gate.app import logs
from vllm_gate.app.checkpoint import read_headers
from vllm_gate.app.files import read_bytes, write_atomically
from vllm_gate.app.observers import Observer
from vllm_gate.app.runner import run_gates
from vllm_gate.app.select import select
from vllm_gate.app.services import connect_all, describe
from vllm_gate.config.plan import Plan
from vllm_gate.core.redact import redact
from vllm_gate.core.report import GateResult, Report
from vllm_gate.core.secret import Redactor, Secret
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import ExitCode
from vllm_gate.gates.canary.means import Means
from vllm_gate.gates.interface import Context, Gate, LogSource
from vllm_gate.path.record import read_chunks
from vllm_gate.report.json_report import to_json
from vllm_gate.server.interface import Service

FAIL_ON = ("fail", "inconclusive", "never")


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, as a run sees it. Tests pass their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    utc: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)


def judge(
    plan: Plan,
    gates: Sequence[Gate],
    *,
    wanted: str,
    observer: Observer,
    clock: Clock,
    allowed_hosts: frozenset[str] | None = None,
    seed: int | None = None,
    means: Means | None = None,
) -> Report:
    """Ask the services and report. Raises Interrupted, UsageError (nothing to ask) and FileProblem (a snapshot)."""
    selection = select(gates, plan, wanted)
    started, started_at = clock.now(), clock.utc()
    services = connect_all(plan, allowed_hosts)
    observer.run_started([gate for gate in gates if gate.key not in selection.skipped])
    seed = random.SystemRandom().getrandbits(32) if seed is None else seed
    context = Context(
        plan=plan,
        services=services,
        log=_log(plan),
        progress=lambda *_, **__: None,
        now=clock.now,
        sleep=clock.sleep,
        rng=np.random.default_rng(seed),
        today=started_at.date(),
        checkpoint=read_headers,
        snapshots=_snapshots(plan),
        means=means or Means(),
    )
    results = run_gates(selection, context, observer, clock.now)
    return Report(
        tool_version=__version__,
        started_at=started_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        duration_s=round(clock.now() - started, 3),
        gates=results,
        services=describe(services),
        thresholds=_thresholds(plan),
        notes=(*_likely_causes(plan, results), *_adapted(services.values()), f"seed {seed}"),
    )


def exit_code(report: Report, fail_on: str) -> ExitCode:
    """What the process answers: `--fail-on` says which verdicts make it non-zero."""
    if fail_on == "never" or report.verdict in (Verdict.PASS, Verdict.SKIPPED):
        return ExitCode.PASS
    if report.verdict is Verdict.FAIL:
        return ExitCode.BLOCKED
    return ExitCode.PASS if fail_on == "fail" else ExitCode.COULD_NOT_JUDGE


def masked(report: Report, plan: Plan, environ: Mapping[str, str]) -> Report:
    """The report without any secret: the plan's keys, and whatever the environment names as a token or key."""
    return redact(report, redactor(plan, environ))


def redactor(plan: Plan, environ: Mapping[str, str]) -> Redactor:
    """Masks the plan's keys, and whatever the environment names as a token or key."""
    return Redactor((*secrets_of(plan), *_environment_secrets(environ)))


def write_report(report: Report, folder: Path) -> Path:
    """Write report.json into `folder`; returns its path."""
    path = folder / "report.json"
    write_atomically(path, to_json(report).encode())
    return path


def _likely_causes(plan: Plan, results: Sequence[GateResult]) -> list[str]:
    """Known faults that explain what failed, for this version, quantisation, TP and these backends."""
    failed = [finding for gate in results for finding in gate.findings if finding.verdict is Verdict.FAIL]
    log = _log(plan)
    if not failed:
        return []
    record = read_chunks(log.chunks() if log else ())
    symptoms = [finding.symptom for finding in failed if finding.symptom]
    causes = rank_causes(symptoms, plan.matrix, record, plan.services["under_test"].model)
    return [f"likely cause: {cause.title} ({cause.reference}): {cause.remedy}" for cause in causes[:3]]


def _adapted(services: Iterable[Service]) -> list[str]:
    return [note for service in services for note in getattr(service, "notes", ())]


def _log(plan: Plan) -> LogSource | None:
    spec = plan.services["under_test"].log
    return logs.open_log(spec) if spec else None


def _snapshots(plan: Plan) -> dict[str, bytes]:
    return {
        name: read_bytes(Path(service.snapshot), "snapshot")
        for name, service in plan.services.items()
        if service.snapshot
    }


def _thresholds(plan: Plan) -> dict[str, object]:
    return asdict(plan.gates)


def secrets_of(plan: Plan) -> list[Secret]:
    """Every key that the configuration names."""
    keys = [service.api_key for service in plan.services.values()]
    return [secret for secret in (*keys, plan.rollback.notify_webhook, plan.rollback.webhook_secret) if secret]


def _environment_secrets(environ: Mapping[str, str]) -> list[Secret]:
    telling = ("TOKEN", "SECRET", "PASSWORD", "API_KEY")
    return [Secret(value) for name, value in environ.items() if any(word in name.upper() for word in telling)]
