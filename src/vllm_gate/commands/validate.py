"""`vllm-gate validate`: every problem of the configuration, with its place and the fix."""

from __future__ import annotations

import argparse
import json
import os
import sys

from vllm_gate.app.plan import add_plan_arguments, conditions, sources_from
from vllm_gate.config.load import examine
from vllm_gate.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `validate`."""
    add_plan_arguments(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how problems are printed")
    parser.add_argument("--conditions", action="store_true", help="list every rollback condition, and do nothing else")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print every problem; exit 2 when one of them is an error."""
    if arguments.conditions:
        print("\n".join(sorted(conditions())))
        return ExitCode.PASS
    _, diagnostics = examine(sources_from(arguments), os.environ, conditions())
    errors = sum(not diagnostic.warning for diagnostic in diagnostics)
    if arguments.format == "json":
        rows = [
            {
                "path": diagnostic.location.path,
                "line": diagnostic.location.line,
                "column": diagnostic.location.column,
                "key": diagnostic.key,
                "message": diagnostic.message,
                "severity": "warning" if diagnostic.warning else "error",
            }
            for diagnostic in diagnostics
        ]
        json.dump(rows, sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        for diagnostic in diagnostics:
            print(diagnostic)
        warnings = len(diagnostics) - errors
        print(f"{arguments.settings} and {arguments.config}: {errors} errors, {warnings} warnings")
    return ExitCode.USAGE if errors else ExitCode.PASS
