"""Run the command line as a user would, and read what it wrote."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.lab.install import REPOSITORY
from tests.e2e.lab.serve import MODEL_NAME, Server

SETTINGS = REPOSITORY / "tests/e2e/settings"
COMMAND = REPOSITORY / ".venv/bin/vllm-gate"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one command did."""

    exit_code: int
    report: Mapping[str, Any]

    def findings(self, gate: str, check: str = "") -> list[Mapping[str, Any]]:
        """The findings of one gate, of one check if named."""
        gates = [found for found in self.report["gates"] if found["gate"] == gate]
        return [finding for found in gates for finding in found["findings"] if check in ("", finding["check"])]


def run(
    server: Server,
    folder: Path,
    *,
    gates: str,
    settings: Mapping[str, Any] | None = None,
    config: str = "",
    lock: Path | None = None,
) -> Outcome:
    """`vllm-gate run` against a server. `settings` replaces keys of gates by name; `config` is appended to the TOML."""
    written = _settings_file(folder, settings or {})
    (folder / "config.toml").write_text(_service("under_test", server) + f'log = "{server.log}"\n' + config)
    files = ("--settings", written, "--config", folder / "config.toml", "--report-dir", folder)
    done, _ = command("run", "--gates", gates, *files, *(("--lock-file", lock) if lock else ()))
    report = folder / "report.json"
    return Outcome(done.returncode, json.loads(report.read_text()) if report.exists() else {})


def command(name: str, *arguments: str | Path) -> tuple[subprocess.CompletedProcess[str], float]:
    """One command of vllm-gate, shown with what it printed; and how many seconds it took."""
    start = time.monotonic()
    done = subprocess.run([COMMAND, name, *arguments], capture_output=True, text=True, timeout=1200, check=False)
    seconds = time.monotonic() - start
    print(f"\n$ vllm-gate {name}: exit {done.returncode} after {seconds:.0f} s", file=sys.stderr)
    print(done.stderr + done.stdout, file=sys.stderr, flush=True)
    return done, seconds


def service(name: str, server: Server) -> str:
    """A `[service.NAME]` table."""
    return "\n" + _service(name, server)


def requests_served(server: Server) -> int:
    """Generations that the server has finished, by its own count."""
    with urllib.request.urlopen(f"{server.root}/metrics", timeout=30) as answer:
        counts = re.findall(r"^vllm:request_success_total\{.*\} (\S+)$", answer.read().decode(), re.MULTILINE)
    return int(sum(map(float, counts)))


def _service(name: str, server: Server) -> str:
    return f'[service.{name}]\nbase_url = "{server.base_url}"\nmodel = "{MODEL_NAME}"\n'


def _settings_file(folder: Path, changes: Mapping[str, Any]) -> Path:
    """The settings beside this file, as they are, or a copy with changed gates."""
    original = SETTINGS / "settings.json"
    if not changes:
        return original
    settings = json.loads(original.read_text())
    for gate, keys in changes.items():
        settings["gate_config"].setdefault(gate, {}).update(keys)
    suite = settings["gate_config"]["gate_3_golden_prompt"].get("suite")
    if suite:
        settings["gate_config"]["gate_3_golden_prompt"]["suite"] = str(SETTINGS / suite)
    (folder / "settings.json").write_text(json.dumps(settings, indent=1))
    return folder / "settings.json"
