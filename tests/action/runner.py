"""The Actions runner, as far as an action can tell: its files, its variables, and how it reads what is printed.

Rules from actions/runner: `ActionCommand.cs`, `FileCommandManager.cs`, `ContainerActionHandler.cs`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD, MERGE, BASE = "b" * 40, "a" * 40, "c" * 40
TOKEN = "ghs_planted_0123456789abcdef"
PULL_REQUEST = {
    "pull_request": {"number": 7, "head": {"sha": HEAD}, "base": {"sha": BASE}},
    "repository": {"default_branch": "main"},
}
PUSH = {"repository": {"default_branch": "main"}}


@dataclass(frozen=True)
class Command:
    """A workflow command that the runner obeyed."""

    name: str
    properties: Mapping[str, str]
    message: str


@dataclass(frozen=True)
class Step:
    """What is left of a step when it has ended."""

    code: int
    log: str
    outputs: Mapping[str, str]
    summary: str
    commands: tuple[Command, ...] = field(default=())

    def annotations(self, level: str) -> list[Command]:
        return [command for command in self.commands if command.name == level]


class Runner:
    """One job on a self-hosted runner; `folder` gets its layout."""

    def __init__(self, folder: Path, api_url: str, event: str = "push", payload: Mapping[str, Any] = PUSH) -> None:
        self.workspace = folder / "workspace"
        self.files = folder / "file_commands"
        for made in (self.workspace, self.files):
            made.mkdir(exist_ok=True, parents=True)
        (folder / "event.json").write_text(json.dumps(payload))
        self.variables = {
            "GITHUB_ACTIONS": "true",
            "CI": "true",
            "GITHUB_REPOSITORY": "org/deploy",
            "GITHUB_SHA": MERGE,
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_RUN_ID": "42",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_API_URL": api_url,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_WORKSPACE": str(self.workspace),
        }

    def start(self, **inputs: str) -> subprocess.Popen[str]:
        """The action as a process; inputs by name, `_` for `-`."""
        for name in ("OUTPUT", "STEP_SUMMARY"):
            (self.files / name).write_text("")
        given = {"github_token": TOKEN, "rollback": "auto"} | inputs
        return self.launch(
            {
                **self.variables,
                **{f"INPUT_{name.upper().replace('_', '-')}": value for name, value in given.items()},
                "GITHUB_OUTPUT": str(self.files / "OUTPUT"),
                "GITHUB_STEP_SUMMARY": str(self.files / "STEP_SUMMARY"),
            }
        )

    def launch(self, variables: Mapping[str, str]) -> subprocess.Popen[str]:
        """The action's entry point with these variables."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))}
        return subprocess.Popen(
            [sys.executable, "-m", "vllm_gate.action"],
            cwd=self.workspace,
            env={**own, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def step(self, **inputs: str) -> Step:
        """Run the action to its end."""
        return self.finish(self.start(**inputs))

    def finish(self, process: subprocess.Popen[str]) -> Step:
        """Wait, and read what is left."""
        log, _ = process.communicate(timeout=120)
        return Step(
            code=process.returncode,
            log=log,
            outputs=read_outputs((self.files / "OUTPUT").read_text()),
            summary=(self.files / "STEP_SUMMARY").read_text(),
            commands=read_commands(log),
        )


def read_outputs(text: str) -> dict[str, str]:
    """The name-value file, as the runner parses it. Raises AssertionError where the runner would fail the step."""
    outputs: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if heredoc < 0 or 0 <= equals < heredoc:
            assert equals > 0, f"invalid format {line!r}"
            outputs[line[:equals]] = line[equals + 1 :]
            continue
        name, delimiter = line[:heredoc], line[heredoc + 2 :]
        value = []
        for inner in lines:
            if inner == delimiter:
                break
            value.append(inner)
        else:
            raise AssertionError(f"matching delimiter not found {delimiter!r}")
        outputs[name] = "\n".join(value)
    return outputs


def read_commands(log: str) -> tuple[Command, ...]:
    """The commands in a log: `::name k=v::message` at the start of a line, `##[name]message` anywhere in one."""
    found = []
    stopped = ""
    for line in re.split(r"[\r\n]+", log):
        new = re.match(r"\s*::([\w-]+)(?: (.*?))?::(.*)$", line)
        old = re.search(r"##\[([\w-]+)([^\]]*)\](.*)$", line)
        if new:
            name, properties, message = new[1], new[2] or "", new[3]
        elif old:
            name, properties, message = old[1], old[2], old[3]
        else:
            continue
        if stopped:
            stopped = "" if name == stopped else stopped
            continue
        if name == "stop-commands":
            stopped = message
            continue
        pairs = (pair.split("=", 1) for pair in properties.split(",") if "=" in pair)
        found.append(Command(name, {key.strip(): _unescape(value) for key, value in pairs}, _unescape(message)))
    return tuple(found)


def _unescape(text: str) -> str:
    for escaped, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escaped, character)
    return text
