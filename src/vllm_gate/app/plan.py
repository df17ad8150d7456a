"""From the command line to a Plan: reads the files it names, and lets a few options override them."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from vllm_gate.app.files import read_bytes
from vllm_gate.config.document import Source
from vllm_gate.config.load import Sources, decode, load, suite_path
from vllm_gate.config.plan import Plan
from vllm_gate.gates.registry import GATES
from vllm_gate.path.lock import parse as parse_lock
from vllm_gate.rollback.conditions import Condition, known_conditions


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say where the configuration is."""
    parser.add_argument("--settings", type=Path, default=Path("settings.json"), help="gates and thresholds")
    parser.add_argument("--config", type=Path, default=Path("config.toml"), help="services, matrix, rollback")
    parser.add_argument(
        "--lock-file",
        type=Path,
        default=Path("vllm-gate.lock.json"),
        help="the approved execution path, if there is one",
    )
    parser.add_argument("--log", default="", help="startup log of the release: a path, docker:NAME, or -")
    parser.add_argument("--service-url", default="", help="base_url of the release under test, instead of config's")
    parser.add_argument("--model", default="", help="model name of the release under test, instead of config's")


class Files(Protocol):
    """Where the configuration is read from: the working tree, or a commit of the repository."""

    def read(self, path: Path, what: str) -> bytes:
        """The content of the file the user named as `what`. Raises FileProblem."""
        ...

    def exists(self, path: Path) -> bool:
        """Whether there is such a file."""
        ...


class WorkingTree:
    """The files as they lie here."""

    def read(self, path: Path, what: str) -> bytes:
        """See `Files`."""
        return read_bytes(path, what)

    def exists(self, path: Path) -> bool:
        """See `Files`."""
        return path.exists()


def sources_from(arguments: argparse.Namespace, files: Files | None = None) -> Sources:
    """The texts of the named files. Raises FileProblem; a lock that is not there is simply absent."""
    files = files or WorkingTree()

    def source(path: Path, what: str) -> Source:
        return decode(str(path), files.read(path, what))

    settings = source(arguments.settings, "settings file")
    named = suite_path(settings)
    lock: Path = arguments.lock_file
    return Sources(
        settings=settings,
        config=source(arguments.config, "config file"),
        suite=source(arguments.settings.parent / named, "golden suite") if named else None,
        lock=source(lock, "lock file") if files.exists(lock) else None,
    )


def plan_from(arguments: argparse.Namespace, environ: Mapping[str, str], files: Files | None = None) -> Plan:
    """The plan of one run; `files` is the working tree unless given. Raises ConfigError and FileProblem."""
    plan = load(sources_from(arguments, files), environ, conditions())
    if plan.lock:
        parse_lock(plan.lock, plan.lock_path)
    release = plan.services["under_test"]
    release = replace(
        release,
        base_url=arguments.service_url or release.base_url,
        model=arguments.model or release.model,
        log=arguments.log or release.log,
    )
    return replace(plan, services={**plan.services, "under_test": release})


def conditions() -> dict[str, Condition]:
    """Every rollback condition that the registered gates can raise, by name."""
    return known_conditions({gate.key: importlib.import_module(type(gate).__module__).CHECK_NAMES for gate in GATES})
