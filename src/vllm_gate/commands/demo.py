"""`vllm-gate demo`: a healthy release and a faulty one, both on embedded stand-ins, judged side by side."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from vllm_gate.app import run as app
from vllm_gate.app.canary import means_for
from vllm_gate.app.live import progress_observer
from vllm_gate.app.plan import conditions
from vllm_gate.app.services import connect_all
from vllm_gate.config.document import Source
from vllm_gate.config.load import Sources, load
from vllm_gate.config.plan import Plan, ServiceConfig, ShadowCanarySettings, TrafficSettings
from vllm_gate.core.report import Report
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import ExitCode, UsageError
from vllm_gate.gates.registry import GATES
from vllm_gate.report.console import to_text
from vllm_gate.server.reply import Reply
from vllm_gate.simulator.faults import FAULTS, parse_fault
from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings
from vllm_gate.simulator.traffic import bodies
from vllm_gate.traffic.request import CHAT

ORIGINAL_FAULT = "fp32_as_bf16"
_CANARY = ShadowCanarySettings(
    enabled=True,
    traffic_ratio=1.0,
    task_success_drop_threshold=0.1,
    degeneration_rate_threshold=0.1,
    concurrency=2,
)
"""Limits that a hundred requests can prove."""
_TRAFFIC = 400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `demo`."""
    parser.add_argument(
        "--fault", default=ORIGINAL_FAULT, metavar="NAME[:VALUE]", help="what is wrong with the second release"
    )
    parser.add_argument("--report-dir", type=Path, default=None, help="keep both reports here")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Tell the story; exit 0 when the healthy release passes and the faulty one is blocked, else 3."""
    try:
        fault = parse_fault(arguments.fault)
    except ValueError as problem:
        raise UsageError(
            f"--fault {arguments.fault}: {problem}", hint="`vllm-gate simulate --list-faults`"
        ) from problem
    console = Console(highlight=False, width=min(shutil.get_terminal_size((100, 24)).columns, 110))
    console.print(Text("Two releases of one model on a stand-in for vLLM: same weights, TP=4.", style="bold"))
    with tempfile.TemporaryDirectory(prefix="vllm-gate-demo-") as scratch:
        healthy = _act(console, Path(scratch), "the healthy release", "", arguments.report_dir)
        faulty = _act(console, Path(scratch), f"the release with {fault.name}", arguments.fault, arguments.report_dir)
    console.print(Rule(style="dim"))
    console.print(_moral(healthy, faulty, arguments.fault))
    return (
        ExitCode.PASS if (healthy.verdict, faulty.verdict) == (Verdict.PASS, Verdict.FAIL) else ExitCode.COULD_NOT_JUDGE
    )


def _act(console: Console, scratch: Path, title: str, fault: str, keep: Path | None) -> Report:
    """Serve one release, show what a health check sees of it, and judge it."""
    log = scratch / f"{fault or 'healthy'}.log".replace(":", "-")
    version = "0.25.0" if fault == ORIGINAL_FAULT else "0.25.1"  # the release that had it, and the one that fixed it
    release = SimulatorSettings(version=version, faults=(fault,) if fault else (), log_path=str(log))
    console.print(Rule(Text(title, style="bold"), style="dim"))
    with Simulator(release) as server, Simulator(replace(release, tp=1, faults=(), log_path="")) as baseline:
        plan = _plan(server, baseline, log, _traffic(scratch))
        console.print(_health_check(plan))
        clock = app.Clock()
        with means_for(plan, {}, journal=log.with_suffix(".canary.jsonl")) as means:
            report = app.judge(
                plan, GATES, wanted="", observer=progress_observer(clock.now), clock=clock, seed=1, means=means
            )
    sys.stdout.flush()
    console.file.write(to_text(report, width=console.width, color=console.is_terminal))
    if keep:
        console.print(f"report: {app.write_report(report, keep / (fault or 'healthy'))}")
    return report


def _traffic(scratch: Path) -> Path:
    """What users asked, as an OpenAI Batch file."""
    path = scratch / "traffic.jsonl"
    rows = ({"custom_id": f"r-{number}", "url": CHAT, "body": body} for number, body in enumerate(bodies(_TRAFFIC)))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _plan(server: Simulator, baseline: Simulator, log: Path, traffic: Path) -> Plan:
    """The example's settings, with the addresses of the stand-ins and a canary."""
    texts = {name: files("vllm_gate.config").joinpath(f"starter/{name}").read_text() for name in _FILES}
    sources = Sources(settings=Source(_FILES[0], texts[_FILES[0]]), config=Source(_FILES[1], texts[_FILES[1]]))
    plan = load(sources, {}, conditions())
    model = server.settings.model
    services = {
        "under_test": ServiceConfig(name="under_test", base_url=server.base_url, model=model, log=str(log)),
        "baseline": ServiceConfig(name="baseline", base_url=baseline.base_url, model=model),
        "tp.1": ServiceConfig(name="tp.1", base_url=baseline.base_url, model=model),
    }
    gates = replace(
        plan.gates,
        model_load=replace(plan.gates.model_load, timeout_sec=8.0),
        numerical=replace(plan.gates.numerical, enabled=True, prompts=24, positions=16),
        shadow_canary=_CANARY,
    )
    return replace(plan, services=services, gates=gates, traffic=TrafficSettings(log=(str(traffic),)))


_FILES = ("settings.json", "config.toml")


def _health_check(plan: Plan) -> Text:
    """What an ordinary monitor would see."""
    service = connect_all(plan, None)["under_test"]
    try:
        health = service.health()
        answer = service.chat([{"role": "user", "content": "Hello"}], max_tokens=16)
    except Exception as error:
        return Text(f"a monitor sees: no answer ({error})", style="dim")
    if not isinstance(answer, Reply):
        return Text(f"a monitor sees: /health {200 if health else 503}, chat HTTP {answer.status}", style="dim")
    speed = answer.elapsed_s * 1000
    return Text(f"a monitor sees: /health 200, chat HTTP 200 in {speed:.0f} ms — all green", style="green")


def _moral(healthy: Report, faulty: Report, fault: str) -> Text:
    passed = "passed" if healthy.verdict is Verdict.PASS else f"was not passed ({healthy.verdict})"
    blocked = "blocked" if faulty.verdict is Verdict.FAIL else f"not blocked ({faulty.verdict})"
    summary = FAULTS[fault.partition(":")[0]].summary
    return Text(
        f"The healthy release {passed}. The other one was {blocked}: {summary}.\n"
        "Next: `vllm-gate init` writes the files for your own server, `vllm-gate run` judges it.",
        style="bold",
    )
