"""Acts on a decision: starts the rollback workflow, tells the webhook, and says what came of both. Never raises."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from vllm_gate.app.run import Clock
from vllm_gate.config.plan import RollbackSettings
from vllm_gate.core.report import Report, Rollback
from vllm_gate.core.secret import Secret
from vllm_gate.errors import GateError, Interrupted, UsageError
from vllm_gate.github import webhook
from vllm_gate.github.api import GitHubApi
from vllm_gate.github.dispatch import dispatch
from vllm_gate.report.webhook import payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """Where a rollback goes. `api` is None where no token was given."""

    api: GitHubApi | None
    correlation_id: str
    sha: str
    run_url: str
    default_branch: str
    """"" when the event did not say: GitHub is asked."""
    utc: Callable[[], float]
    sleep: Callable[[float], None]


def outlet_from(environ: Mapping[str, str], clock: Clock) -> Outlet:
    """The outlet of a run outside of GitHub Actions. Raises UsageError without a repository or a token."""
    missing = [name for name in ("GITHUB_TOKEN", "GITHUB_REPOSITORY") if not environ.get(name)]
    if missing:
        raise UsageError(
            f"--rollback auto: {' and '.join(missing)} not set", hint="set them, or use --rollback dry-run"
        )
    sha = environ.get("GITHUB_SHA", "")
    api = GitHubApi(
        environ.get("GITHUB_API_URL") or "https://api.github.com",
        environ["GITHUB_REPOSITORY"],
        Secret(environ["GITHUB_TOKEN"]),
        now=clock.now,
        utc=time.time,
        sleep=clock.sleep,
    )
    return Outlet(
        api=api,
        correlation_id=f"vllm-gate-{uuid.uuid4().hex[:12]}",
        sha=sha,
        run_url="",
        default_branch="",
        utc=time.time,
        sleep=clock.sleep,
    )


def act_on(report: Report, settings: RollbackSettings, outlet: Outlet) -> Rollback | None:
    """The outcome; None when the decision asks for nothing.

    `auto_rollback = false` dispatches nothing, but whoever left an address for the webhook wants to hear.
    """
    decision = report.decision
    if decision is None or decision.action not in ("dispatch", "off"):
        return None
    outcome = Rollback(correlation_id=outlet.correlation_id)
    if decision.action == "dispatch":
        outcome = _dispatch(report, settings, outlet, outcome)
    if settings.notify_webhook is None:
        return outcome if decision.action == "dispatch" else None
    return replace(outcome, webhook=_tell(replace(report, rollback=outcome), settings, outlet) or "sent")


def _dispatch(report: Report, settings: RollbackSettings, outlet: Outlet, outcome: Rollback) -> Rollback:
    try:
        if outlet.api is None:
            return replace(outcome, error="no token was given; the job needs `permissions: actions: write`")
        done = dispatch(
            outlet.api,
            workflow=settings.workflow,
            ref=settings.ref or outlet.default_branch or _default_branch(outlet.api),
            inputs=_inputs(report, outlet),
            correlation_id=outlet.correlation_id,
            sleep=outlet.sleep,
        )
    except Interrupted:
        raise
    except GateError as problem:
        return replace(outcome, error=" ".join(filter(None, (str(problem), problem.hint))))
    return replace(outcome, dispatched=True, already=done.already, run_url=done.run_url)


def _inputs(report: Report, outlet: Outlet) -> dict[str, str]:
    """At most ten short strings, GitHub Enterprise's limit; the workflow declares those that it wants."""
    assert report.decision is not None
    release = next((service for service in report.services if service.name == "under_test"), None)
    return {
        "reason": report.decision.reason,
        "conditions": ",".join(report.decision.matched),
        "sha": outlet.sha,
        "run_url": outlet.run_url,
        "model": release.model if release else "",
        "from": f"vllm-{release.version}" if release and release.version else "",
    }


def _default_branch(api: GitHubApi) -> str:
    repository = api.get("").data
    return str(repository.get("default_branch") or "main") if isinstance(repository, dict) else "main"


def _tell(report: Report, settings: RollbackSettings, outlet: Outlet) -> str:
    assert settings.notify_webhook is not None
    return webhook.send(
        settings.notify_webhook,
        payload(report, settings.webhook_format, run_url=outlet.run_url),
        style=settings.webhook_format,
        secret=settings.webhook_secret,
        delivery=outlet.correlation_id,
        utc=outlet.utc,
        sleep=outlet.sleep,
    )
