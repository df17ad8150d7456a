"""`vllm-gate localize`: reports of one gate under several switches, and which switch makes the fault vanish."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from vllm_gate.app.files import read_bytes
from vllm_gate.errors import ExitCode, FileProblem, UsageError
from vllm_gate.report.localize import AS_IS, Tried, to_markdown, tried


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `localize`."""
    parser.add_argument(
        "reports",
        nargs="+",
        metavar="SWITCH=REPORT",
        help=f"a report.json for each switch; {AS_IS}=… is the configuration at fault",
    )
    parser.add_argument("--summary", action="store_true", help="add the table to the job summary of GitHub Actions")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the table in Markdown."""
    rows = [_read(argument) for argument in arguments.reports]
    names = [row.switch for row in rows]
    if len(set(names)) != len(names):
        raise UsageError("a switch is named twice", hint="give each report its own name")
    table = to_markdown(rows)
    sys.stdout.write(table)
    page = os.environ.get("GITHUB_STEP_SUMMARY") if arguments.summary else None
    if page:
        with Path(page).open("a", encoding="utf-8") as summary:
            summary.write(table)
    return ExitCode.PASS


def _read(argument: str) -> Tried:
    switch, separator, path = argument.partition("=")
    if not separator or not switch:
        raise UsageError(f"{argument!r} is not of the form SWITCH=REPORT", hint=f"as in {AS_IS}=report.json")
    try:
        return tried(switch, json.loads(read_bytes(Path(path), "report")))
    except (ValueError, KeyError, TypeError) as problem:
        raise FileProblem(
            f"{path}: this is no report of vllm-gate", hint="`vllm-gate run` writes report.json"
        ) from problem
