"""`vllm-gate init`: starter files, written into the current folder; nothing that exists is touched."""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

from vllm_gate.app.files import write_atomically
from vllm_gate.errors import ExitCode

STARTERS = {
    "settings.json": "settings.json",
    "config.toml": "config.toml",
    "golden.yaml": "golden.yaml",
    "workflows/vllm-gate.yml": ".github/workflows/vllm-gate.yml",
    "workflows/rollback.yml": ".github/workflows/rollback.yml",
}
"""Where each goes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `init`."""
    parser.add_argument("--into", type=Path, default=Path(), help="folder to write into")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Write each starter that is not there yet, and say what to do next."""
    for name, place in STARTERS.items():
        path: Path = arguments.into / place
        if path.exists():
            print(f"kept   {path} (it exists)")
            continue
        write_atomically(path, files("vllm_gate.config").joinpath(f"starter/{name}").read_bytes())
        print(f"wrote  {path}")
    print("next: set base_url and model in config.toml, then `vllm-gate validate` and `vllm-gate run`")
    return ExitCode.PASS
