"""`vllm-gate compare`: two captures against each other, the first as the reference."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import numpy as np

from vllm_gate import __version__
from vllm_gate.app import run as app
from vllm_gate.app.capture import compare_snapshots
from vllm_gate.app.files import read_bytes
from vllm_gate.config.plan import DRIFT_METRICS, NumericalSettings
from vllm_gate.core.report import GateResult, Report, ServiceFacts
from vllm_gate.errors import ExitCode
from vllm_gate.judge.snapshot import Snapshot, from_bytes
from vllm_gate.report.console import to_text
from vllm_gate.report.json_report import to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `compare`."""
    defaults = NumericalSettings()
    parser.add_argument("reference", type=Path, help="capture of the reference")
    parser.add_argument("candidate", type=Path, help="capture of what is judged")
    parser.add_argument("--logit-drift-tolerance", type=float, default=defaults.logit_drift_tolerance)
    parser.add_argument("--perplexity-drift-tolerance", type=float, default=defaults.perplexity_drift_tolerance)
    parser.add_argument("--logit-drift-metric", choices=DRIFT_METRICS, default=defaults.logit_drift_metric)
    parser.add_argument("--fail-on", choices=app.FAIL_ON, default="inconclusive")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the findings; the exit code is the verdict's."""
    clock = app.Clock()
    started = clock.now()
    snapshots = [_read(path) for path in (arguments.reference, arguments.candidate)]
    settings = NumericalSettings(
        logit_drift_tolerance=arguments.logit_drift_tolerance,
        perplexity_drift_tolerance=arguments.perplexity_drift_tolerance,
        logit_drift_metric=arguments.logit_drift_metric,
        prompts=10_000,
        max_prompts=10_000,
    )
    findings = compare_snapshots(snapshots[0], snapshots[1], settings, np.random.default_rng(0))
    gate = GateResult(gate="gate_2_numerical", number=2, title="numerical consistency", findings=findings)
    report = Report(
        tool_version=__version__,
        started_at=clock.utc().strftime("%Y-%m-%dT%H:%M:%SZ"),
        duration_s=round(clock.now() - started, 3),
        gates=(dataclasses.replace(gate, duration_s=round(clock.now() - started, 3)),),
        services=tuple(_service(snapshot) for snapshot in snapshots),
    )
    sys.stdout.write(to_json(report) if arguments.format == "json" else to_text(report, color=sys.stdout.isatty()))
    return app.exit_code(report, arguments.fail_on)


def _read(path: Path) -> Snapshot:
    return from_bytes(read_bytes(path, "capture"), str(path))


def _service(snapshot: Snapshot) -> ServiceFacts:
    facts = snapshot.facts
    return ServiceFacts(
        name=facts.get("service", ""),
        base_url=f"capture of {facts.get('captured_at', 'unknown time')}",
        model=facts.get("model", ""),
        version=facts.get("version", ""),
    )
