"""The user's files as a Plan, or every problem in them at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vllm_gate.config.build import build_plan
from vllm_gate.config.diagnostic import Diagnostic, in_order
from vllm_gate.config.document import Document, Source, dotted, parse
from vllm_gate.config.golden import GoldenCase, read_suite
from vllm_gate.config.plan import Plan
from vllm_gate.config.schema import violations
from vllm_gate.config.semantics import config_problems, reference_problems, settings_problems
from vllm_gate.config.syntax import Lines
from vllm_gate.core.finding import Location
from vllm_gate.errors import ConfigError, FileProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The texts a plan is made of. `suite` and `lock` are None where there is no such file."""

    settings: Source
    config: Source
    suite: Source | None = None
    lock: Source | None = None


def load(sources: Sources, environ: Mapping[str, str], known_conditions: Iterable[str]) -> Plan:
    """The plan. Raises ConfigError that lists every error with its place; warnings do not keep it from loading."""
    plan, diagnostics = examine(sources, environ, known_conditions)
    errors = [diagnostic for diagnostic in diagnostics if not diagnostic.warning]
    if plan is None or errors:
        count = f"{len(errors)} problem{'s' if len(errors) != 1 else ''}"
        listed = "\n".join(f"  {diagnostic}" for diagnostic in errors)
        raise ConfigError(
            f"the configuration has {count}:\n{listed}", hint="`vllm-gate validate` checks the files without a run"
        )
    return plan


def examine(
    sources: Sources, environ: Mapping[str, str], known_conditions: Iterable[str]
) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    """The plan, None when it can't be built, and every problem and warning, file by file from top to bottom."""
    settings, config = parse(sources.settings), parse(sources.config)
    problems = [*settings.problems, *config.problems]
    problems += [*violations(settings, "settings.schema.json"), *violations(config, "config.schema.json")]
    cases: tuple[GoldenCase, ...] = ()
    if sources.suite:
        cases, suite_problems = read_suite(sources.suite)
        problems += suite_problems
    problems += settings_problems(settings, frozenset(known_conditions))
    problems += [*config_problems(config, environ), *reference_problems(settings, config)]
    if any(not problem.warning for problem in problems):
        return None, in_order(problems)
    places = _places(settings) | _places(config)
    plan = build_plan(settings.values, config.values, environ, cases, sources.lock, places)
    return plan, in_order(problems)


def suite_path(settings: Source) -> str:
    """The path of the golden suite that a settings file names; "" when it names none or can't be read."""
    document = parse(settings)
    try:
        path = document.values["gate_config"]["gate_3_golden_prompt"]["suite"]
    except (KeyError, TypeError):
        return ""
    return path if isinstance(path, str) else ""


def decode(path: str, content: bytes) -> Source:
    """A file's content as a Source. Raises FileProblem, with the place, when it is not UTF-8."""
    try:
        return Source(path, content.decode("utf-8"))
    except UnicodeDecodeError as error:
        readable = content[: error.start].decode("utf-8")
        line, column = Lines(readable).place(len(readable))
        byte = content[error.start]
        raise FileProblem(
            f"{path}:{line}:{column}: not UTF-8 text (byte 0x{byte:02x})", hint="save the file as UTF-8"
        ) from None


def _places(document: Document) -> dict[str, Location]:
    return {dotted(route): Location(document.source.path, *place) for route, place in document.places.items()}
