"""A release judged inside GitHub Actions: check runs, annotations, job summary, outputs and rollback around `run`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from vllm_gate.app.annotate import annotate_diagnostics, annotate_report
from vllm_gate.app.canary import JOURNAL, means_for, with_traffic
from vllm_gate.app.check_observer import CheckObserver
from vllm_gate.app.live import progress_observer
from vllm_gate.app.merged_canary import MergedCanary
from vllm_gate.app.observers import Several
from vllm_gate.app.plan import Files, WorkingTree, conditions, plan_from, sources_from
from vllm_gate.app.release import Options, judge_release
from vllm_gate.app.rollback import Outlet, act_on
from vllm_gate.app.run import Clock, exit_code, redactor, secrets_of
from vllm_gate.config.load import examine
from vllm_gate.config.plan import Plan
from vllm_gate.config.weakening import weakened
from vllm_gate.core.report import Report
from vllm_gate.core.secret import Secret
from vllm_gate.errors import ConfigError, ExitCode, GateError, UsageError
from vllm_gate.gates.canary.means import Means
from vllm_gate.gates.interface import Gate
from vllm_gate.gates.registry import GATES
from vllm_gate.github.api import GitHubApi
from vllm_gate.github.checks import CheckRuns
from vllm_gate.github.commands import SUMMARY_LIMIT, WorkflowCommands
from vllm_gate.github.contents import CommitFiles
from vllm_gate.github.environment import Run
from vllm_gate.report.console import to_text
from vllm_gate.report.outputs import outputs
from vllm_gate.report.summary import to_markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the action adds to the options of `run`."""

    token: Secret | None
    checks: bool = True
    config_ref: str = ""
    allowed_hosts: frozenset[str] | None = None
    workflow: str = ""
    """The rollback workflow, instead of config's."""
    ref: str = ""
    """The branch or tag that holds it, instead of config's."""


def judge_in_actions(
    arguments: argparse.Namespace,
    inputs: Inputs,
    run: Run,
    commands: WorkflowCommands,
    environ: Mapping[str, str],
    *,
    journals: Sequence[Path] = (),
) -> ExitCode:
    """Judge, and leave behind all that the Actions pages show. Raises GateError where there is nothing to judge.

    `journals` of a canary's shards are judged in place of the gates: nothing is asked again.
    """
    clock = Clock()
    api = _api(inputs.token, run, clock)
    run = _on_the_commented_head(run, api)
    plan = _plan(arguments, inputs, api, commands, environ)
    if not journals:
        plan = with_traffic(plan, arguments.traffic)
    for secret in secrets_of(plan):
        commands.mask(secret.reveal())
    if run.base_sha and api:
        _tell_what_is_weakened(arguments, plan, CommitFiles(api, run.base_sha), commands, environ)
    checks = _check_runs(api if inputs.checks else None, run, clock)
    mask = redactor(plan, environ)
    options = Options(
        gates=arguments.gates,
        report_dir=arguments.report_dir,
        rollback=arguments.rollback,
        seed=arguments.seed,
        allowed_hosts=inputs.allowed_hosts,
        proposed=run.proposes,
    )
    # A pull request's own files must not be able to start programs on the runner.
    trusted = not run.proposes or bool(inputs.config_ref)
    journal = arguments.report_dir / JOURNAL
    gates: Sequence[Gate] = (MergedCanary(plan, journals),) if journals else GATES
    with (
        nullcontext(Means())
        if journals
        else means_for(plan, environ, journal=journal, shard=arguments.shard, commands=trusted) as means
    ):
        report, path = judge_release(
            plan,
            gates,
            options,
            observer=Several(
                progress_observer(clock.now),
                CheckObserver(checks, fail_on=arguments.fail_on, workspace=str(run.workspace), mask=mask),
            ),
            clock=clock,
            environ=environ,
            act=lambda judged: act_on(judged, plan.rollback, _outlet(api, run, clock)),
            means=means,
        )
    with commands.group("vllm-gate: the whole report"):
        sys.stdout.write(to_text(report, width=120))
    _publish(report, path, checks, run, commands)
    return exit_code(report, arguments.fail_on)


def _api(token: Secret | None, run: Run, clock: Clock) -> GitHubApi | None:
    if token is None:
        return None
    return GitHubApi(run.api_url, run.repository, token, now=clock.now, utc=time.time, sleep=clock.sleep)


def _on_the_commented_head(run: Run, api: GitHubApi | None) -> Run:
    """A comment's event holds no commit of its pull request: ask. The default branch's tip stays when nobody knows."""
    if run.commented_pull_request is None or api is None:
        return run
    try:
        found = api.get(f"/pulls/{run.commented_pull_request}").data
        head = found["head"]["sha"] if isinstance(found, dict) else run.head_sha
    except (GateError, KeyError, TypeError):
        return run
    return replace(run, head_sha=str(head))


def _plan(
    arguments: argparse.Namespace,
    inputs: Inputs,
    api: GitHubApi | None,
    commands: WorkflowCommands,
    environ: Mapping[str, str],
) -> Plan:
    """The plan, from the commit that `config-ref` names if it names one. Problems become annotations on their lines."""
    files: Files = WorkingTree()
    if inputs.config_ref:
        if api is None:
            raise UsageError("config-ref needs a token", hint="leave github-token at its default")
        files = CommitFiles(api, inputs.config_ref)
    try:
        plan = plan_from(arguments, environ, files)
    except ConfigError:
        _, diagnostics = examine(sources_from(arguments, files), environ, conditions())
        annotate_diagnostics((one for one in diagnostics if not one.warning), commands)
        raise
    rollback = plan.rollback
    return replace(
        plan,
        rollback=replace(
            rollback,
            workflow=inputs.workflow or rollback.workflow,
            ref=inputs.ref or rollback.ref,
            # A pull request's own files must not be able to roll production back.
            on_pull_request=rollback.on_pull_request and bool(inputs.config_ref),
        ),
    )


def _tell_what_is_weakened(
    arguments: argparse.Namespace, plan: Plan, base: Files, commands: WorkflowCommands, environ: Mapping[str, str]
) -> None:
    """Warn on each line of a pull request that asks less of a release. A base without a gate has none to weaken."""
    try:
        before, _ = examine(sources_from(arguments, base), environ, conditions())
    except GateError:
        return
    if before is not None:
        annotate_diagnostics(weakened(before, plan), commands)


def _check_runs(api: GitHubApi | None, run: Run, clock: Clock) -> CheckRuns:
    return CheckRuns(
        api,
        head_sha=run.head_sha,
        details_url=run.url,
        external_id=f"{run.run_id}/{run.attempt}",
        utc=lambda: clock.utc().strftime("%Y-%m-%dT%H:%M:%SZ"),
        now=clock.now,
        sleep=clock.sleep,
    )


def _outlet(api: GitHubApi | None, run: Run, clock: Clock) -> Outlet:
    return Outlet(
        api=api,
        correlation_id=run.correlation_id,
        sha=run.head_sha,
        run_url=run.url,
        default_branch=run.default_branch,
        utc=time.time,
        sleep=clock.sleep,
    )


def _publish(report: Report, path: Path, checks: CheckRuns, run: Run, commands: WorkflowCommands) -> None:
    """Outputs, summary, and annotations of the run where check runs could not hold them."""
    for name, value in outputs(report, report_path=str(path), check_urls=checks.urls).items():
        commands.output(name, value)
    notes = []
    if run.head_sha != run.sha:
        notes.append(f"checked out: {run.sha[:12]}; reported on: {run.head_sha[:12]}")
    if checks.degraded:
        notes.append(f"check runs are missing or incomplete: {checks.degraded}")
        annotate_report(report, commands)
        commands.annotate("notice", notes[-1], title="vllm-gate")
    if report.rollback and report.rollback.error:
        commands.annotate("error", f"the rollback was not dispatched: {report.rollback.error}", title="vllm-gate")
    if report.rollback and report.rollback.webhook not in ("", "sent"):
        commands.annotate("error", f"the webhook was not told: {report.rollback.webhook}", title="vllm-gate")
    commands.summary(to_markdown(report, limit=SUMMARY_LIMIT, notes=tuple(notes)))
