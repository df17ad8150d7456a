"""What no schema can say of the shadow canary's settings: patterns and schemas that can't be used, names twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vllm_gate.config.diagnostic import Diagnostic
from vllm_gate.config.document import Document
from vllm_gate.config.golden import json_schema_problem, regex_problem
from vllm_gate.config.syntax import Route


def canary_problems(settings: Document, canary: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Problems of `validators`. Holds its peace about values of a wrong kind."""
    validators = canary.get("validators")
    seen: set[object] = set()
    for index, given in enumerate(validators if isinstance(validators, list) else []):
        if not isinstance(given, dict):
            continue
        route: Route = ("gate_config", "gate_5_shadow_canary", "validators", index)
        name = given.get("name")
        if isinstance(name, str) and name in seen:
            yield settings.problem((*route, "name"), f"{name!r} is taken by a validator above; names are unique")
        seen.add(name if isinstance(name, str) else None)
        for key, why in _unusable(given):
            yield settings.problem((*route, key), why)


def traffic_problems(config: Document) -> Iterator[Diagnostic]:
    """Problems of `[traffic]`."""
    values = config.values if isinstance(config.values, dict) else {}
    traffic = values.get("traffic")
    if not isinstance(traffic, dict):
        return
    if "log" in traffic and "listen" in traffic:
        yield config.problem(("traffic", "listen"), "traffic comes from a log or from a mirror, not from both")
    if "listen" in traffic and traffic.get("answers") == "recorded":
        yield config.problem(("traffic", "answers"), "a mirror carries no answers; the baseline must be asked (live)")
    patterns = traffic.get("redact")
    for index, pattern in enumerate(patterns if isinstance(patterns, list) else []):
        if isinstance(pattern, str) and (why := regex_problem(pattern)):
            yield config.problem(("traffic", "redact", index), why)


def _unusable(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in ("where", "regex"):
        if isinstance(given.get(key), str) and (why := regex_problem(given[key])):
            yield key, why
    if isinstance(given.get("json_schema"), dict) and (why := json_schema_problem(given["json_schema"])):
        yield "json_schema", why
    tools = given.get("tool_schema")
    for name, schema in tools.items() if isinstance(tools, dict) else ():
        why = json_schema_problem(schema) if isinstance(schema, dict) else "a JSON Schema belongs here"
        if why:
            yield "tool_schema", f"{name}: {why}"
