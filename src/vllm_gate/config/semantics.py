"""What no schema can say: references between keys and files. Holds its peace about values of a wrong kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from vllm_gate.config.canary import canary_problems, traffic_problems
from vllm_gate.config.diagnostic import Diagnostic, nearest
from vllm_gate.config.document import Document
from vllm_gate.config.plan import NumericalSettings
from vllm_gate.config.syntax import Route


def settings_problems(settings: Document, known: frozenset[str]) -> Iterator[Diagnostic]:
    """Conditions and numbers that can't be meant."""
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
    if gates and not any(map(_asked, map(partial(_mapping, gates), gates))):
        yield settings.problem(("gate_config",), "every gate is switched off, so a run proves nothing", warning=True)
    numerical = _mapping(gates, "gate_2_numerical")
    defaults = NumericalSettings()
    first, most = numerical.get("prompts", defaults.prompts), numerical.get("max_prompts", defaults.max_prompts)
    if isinstance(first, int) and isinstance(most, int) and most < first:
        route = ("gate_config", "gate_2_numerical", "max_prompts" if "max_prompts" in numerical else "prompts")
        yield settings.problem(route, "max_prompts must be at least as large as prompts")
    yield from canary_problems(settings, _mapping(gates, "gate_5_shadow_canary"))


def _nearest_condition(condition: str, known: frozenset[str]) -> str:
    hint = nearest(condition, known)
    return hint if "did you mean" in hint else "; `vllm-gate validate --conditions` lists the known ones"


def _can_fire(condition: str, gates: Mapping[str, Any]) -> bool:
    if not condition.startswith("gate_"):
        return True
    return any(_asked(_mapping(gates, gate)) for gate in gates if condition.startswith(gate[: len("gate_N_")]))


def _asked(gate: Mapping[str, Any]) -> bool:
    return gate.get("enabled", True) is not False


def reference_problems(settings: Document, config: Document) -> Iterator[Diagnostic]:
    """Comparisons that settings asks for and config names no service for: such a check can only be inconclusive."""
    gates, services = _mapping(settings.values, "gate_config"), _mapping(config.values, "service")
    if not services:
        return
    recorded = _mapping(config.values, "traffic").get("answers") == "recorded"
    for gate in ("gate_2_numerical", *(() if recorded else ("gate_5_shadow_canary",))):
        if gate in gates and _asked(_mapping(gates, gate)) and "baseline" not in services:
            message = "there is nothing to compare with; add [service.baseline] to the config file"
            yield settings.problem(("gate_config", gate), message, warning=True)
    canary, traffic = _mapping(gates, "gate_5_shadow_canary"), _mapping(config.values, "traffic")
    if canary and _asked(canary) and not (traffic.get("log") or traffic.get("listen")):
        message = "there is no traffic to replay; add [traffic] with log to the config file, or give --traffic"
        yield settings.problem(("gate_config", "gate_5_shadow_canary"), message, warning=True)
    numerical = _mapping(gates, "gate_2_numerical")
    sizes = numerical.get("compare_tp_variants") if _asked(numerical) else None
    own = _mapping(config.values, "matrix").get("parallelism_tp")
    for index, size in enumerate(sizes if isinstance(sizes, list) else []):
        if isinstance(size, int) and size != own and str(size) not in _mapping(services, "tp"):
            route = ("gate_config", "gate_2_numerical", "compare_tp_variants", index)
            message = f"no service runs at this size; add [service.tp.{size}] with base_url or snapshot"
            yield settings.problem(route, message, warning=True)


def config_problems(config: Document, environ: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Services that can't be asked, and variables that are not set."""
    services = _mapping(config.values, "service")
    for name in ("under_test", "baseline"):
        yield from _service_problems(config, ("service", name), services.get(name), environ)
    for size, service in _mapping(services, "tp").items():
        yield from _service_problems(config, ("service", "tp", size), service, environ)
    yield from traffic_problems(config)
    rollback = _mapping(config.values, "rollback")
    if "notify_webhook" in rollback and "notify_webhook_env" in rollback:
        yield config.problem(("rollback", "notify_webhook_env"), "give the webhook's address once, not twice")
    address = environ.get(str(rollback.get("notify_webhook_env")), "").strip()
    if address and not address.startswith(("http://", "https://")):
        yield config.problem(("rollback", "notify_webhook_env"), "the variable named here holds no http(s) address")
    yield from _unset(config, ("rollback", "notify_webhook_env"), rollback, environ, "nobody is told of a rollback")
    yield from _unset(config, ("rollback", "webhook_secret_env"), rollback, environ, "the webhook is not signed")


def _unset(
    config: Document, route: Route, table: Mapping[str, Any], environ: Mapping[str, str], consequence: str
) -> Iterator[Diagnostic]:
    variable = table.get(str(route[-1]))
    if isinstance(variable, str) and variable and not environ.get(variable, "").strip():
        # In another form it may be the secret itself, put here by mistake.
        name = f"variable {variable}" if variable.isupper() and variable.isidentifier() else "variable named here"
        yield config.problem(route, f"the {name} is not set; {consequence}", warning=True)


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
    yield from _unset(config, (*route, "api_key_env"), service, environ, "requests carry no key")


def _address_problems(config: Document, route: Route, address: str) -> Iterator[Diagnostic]:
    """What makes an http(s) address unusable; one of another form is the schema's to refuse."""
    if not address.startswith(("http://", "https://")):
        return
    try:
        parts = urlsplit(address)
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # its words may repeat a password
        usable = False
    if not usable:
        yield config.problem(route, "host or port of this address can't be read; write http://HOST:PORT/v1")
        return
    if parts.username or parts.password:
        yield config.problem(route, "an address must not hold a user or password; use api_key_env")
    if parts.path.rstrip("/").endswith(("/completions", "/messages", "/models")):
        yield config.problem(route, "an address ends before /chat/completions and the like; leave that part out")
    if parts.query or parts.fragment:
        yield config.problem(route, "an address must end with its path; remove ? or # and what follows")


def _mapping(value: Any, key: str = "") -> Mapping[str, Any]:
    """`value`, or what stands at `key` in it, where that is a mapping; else an empty one."""
    if key:
        return _mapping(_mapping(value).get(key))
    return value if isinstance(value, dict) else {}
