"""The user's files as a Plan, or every problem in them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from vllm_gate.config.build import build_plan
from vllm_gate.config.diagnostic import Diagnostic, in_order, nearest
from vllm_gate.config.document import Document, Source, dotted, parse
from vllm_gate.config.golden import GoldenCase, read_suite
from vllm_gate.config.plan import Plan
from vllm_gate.config.schema import violations
from vllm_gate.config.syntax import Route
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
    problems += [*_settings_problems(settings, frozenset(known_conditions)), *_config_problems(config, environ)]
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
        line = content.count(b"\n", 0, error.start) + 1
        raise FileProblem(
            f"{path}:{line}: not UTF-8 text (byte 0x{content[error.start]:02x})", hint="save the file as UTF-8"
        ) from None


def _settings_problems(settings: Document, known: frozenset[str]) -> Iterator[Diagnostic]:
    """What the schema can't say. Holds its peace about values whose kind is already wrong."""
    gates = _mapping(settings.values, "gate_config")
    conditions = _mapping(settings.values).get("rollback_conditions")
    for index, condition in enumerate(conditions if isinstance(conditions, list) else []):
        route: Route = ("rollback_conditions", index)
        if not isinstance(condition, str):
            continue
        if condition not in known:
            yield settings.problem(route, f"unknown condition {condition!r}{_nearest_condition(condition, known)}")
        elif not _can_fire(condition, gates):
            yield settings.problem(route, f"{condition!r} can never match: its gate is not asked", warning=True)
    numerical = _mapping(gates, "gate_2_numerical")
    first, most = numerical.get("prompts", 32), numerical.get("max_prompts", 128)
    if isinstance(first, int) and isinstance(most, int) and most < first:
        route = ("gate_config", "gate_2_numerical", "max_prompts" if "max_prompts" in numerical else "prompts")
        yield settings.problem(route, "max_prompts must be at least as large as prompts")


def _nearest_condition(condition: str, known: frozenset[str]) -> str:
    hint = nearest(condition, known)
    return hint if "did you mean" in hint else "; `vllm-gate validate --conditions` lists the known ones"


def _can_fire(condition: str, gates: Mapping[str, Any]) -> bool:
    if not condition.startswith("gate_"):
        return True
    settings = [_mapping(gates, gate) for gate in gates if condition.startswith(gate[: len("gate_N_")])]
    return any(gate.get("enabled", True) is not False for gate in settings)


def _config_problems(config: Document, environ: Mapping[str, str]) -> Iterator[Diagnostic]:
    services = _mapping(config.values, "service")
    for name in ("under_test", "baseline"):
        yield from _service_problems(config, ("service", name), services.get(name), environ)
    for size, service in _mapping(services, "tp").items():
        yield from _service_problems(config, ("service", "tp", size), service, environ)
    rollback = _mapping(config.values, "rollback")
    if "notify_webhook" in rollback and "notify_webhook_env" in rollback:
        yield config.problem(("rollback", "notify_webhook_env"), "give the webhook's address once, not twice")
    for key in ("notify_webhook_env", "webhook_secret_env"):
        variable = rollback.get(key)
        if isinstance(variable, str) and not environ.get(variable):
            yield config.problem(("rollback", key), f"the variable {variable} is not set", warning=True)


def _service_problems(config: Document, route: Route, service: Any, environ: Mapping[str, str]) -> Iterator[Diagnostic]:
    if not isinstance(service, dict):
        return
    live, captured = "base_url" in service, "snapshot" in service
    if route[-1] == "under_test" and not live:
        yield config.problem(route, "'base_url' is missing; the release under test must be live")
    elif live and captured:
        yield config.problem((*route, "snapshot"), "a service is either live (base_url) or a snapshot, not both")
    elif not (live or captured):
        yield config.problem(route, "'base_url' (live) or 'snapshot' (a capture) is missing; add one")
    if live and "model" not in service:
        yield config.problem(route, "'model' is missing; add the served model's name")
    if isinstance(service.get("base_url"), str):
        yield from _address_problems(config, (*route, "base_url"), service["base_url"])
    variable = service.get("api_key_env")
    if isinstance(variable, str) and variable and not environ.get(variable):
        yield config.problem(
            (*route, "api_key_env"), f"the variable {variable} is not set; requests carry no key", warning=True
        )


def _address_problems(config: Document, route: Route, address: str) -> Iterator[Diagnostic]:
    """What makes an http(s) address unusable; one of another form is the schema's to refuse."""
    if not address.startswith(("http://", "https://")):
        return
    try:
        parts = urlsplit(address)
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        yield config.problem(route, f"{address!r} is no address: {error}")
        return
    if not usable:
        yield config.problem(route, f"{address!r} is no address; write http://HOST:PORT/v1 or https://HOST/…")
    if parts.username or parts.password:
        yield config.problem(route, "an address must not hold a user or password; use api_key_env")
    if parts.query or parts.fragment:
        yield config.problem(route, f"{address!r} must end with its path: ? and # have no meaning here")


def _mapping(value: Any, key: str = "") -> Mapping[str, Any]:
    """`value`, or what stands at `key` in it, where that is a mapping; else an empty one."""
    if key:
        return _mapping(_mapping(value).get(key))
    return value if isinstance(value, dict) else {}


def _places(document: Document) -> dict[str, Location]:
    return {dotted(route): Location(document.source.path, *place) for route, place in document.places.items()}
