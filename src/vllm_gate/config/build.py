"""Valid values as a Plan. Everything questionable was refused before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from vllm_gate.config.document import Source
from vllm_gate.config.golden import GoldenCase
from vllm_gate.config.plan import (
    Gates,
    GoldenPromptSettings,
    LongContextSettings,
    ModelLoadSettings,
    NumericalSettings,
    Plan,
    RollbackSettings,
    ServiceConfig,
    ShadowCanarySettings,
    TrafficSettings,
    Validator,
)
from vllm_gate.core.finding import Location
from vllm_gate.core.secret import Secret

Settings = TypeVar("Settings")


def build_plan(
    settings: Mapping[str, Any],
    config: Mapping[str, Any],
    environ: Mapping[str, str],
    cases: tuple[GoldenCase, ...],
    lock: Source | None,
    places: Mapping[str, Location],
) -> Plan:
    """The plan behind two parsed files that hold no problem."""
    gates = settings["gate_config"]
    return Plan(
        services=_services(config["service"], environ),
        gates=Gates(
            model_load=_typed(ModelLoadSettings, gates.get("gate_1_model_load")),
            numerical=_typed(NumericalSettings, gates.get("gate_2_numerical")),
            golden_prompt=_typed(GoldenPromptSettings, gates.get("gate_3_golden_prompt")),
            long_context=_typed(LongContextSettings, gates.get("gate_4_long_context")),
            shadow_canary=_shadow_canary(gates.get("gate_5_shadow_canary")),
        ),
        matrix={key: _whole(value) for key, value in config.get("matrix", {}).items()},
        conditions=tuple(settings.get("rollback_conditions", ())),
        rollback=_rollback(config.get("rollback", {}), environ),
        traffic=_traffic(config.get("traffic", {})),
        golden_cases=cases,
        lock=lock.text if lock else "",
        lock_path=lock.path if lock else "vllm-gate.lock.json",
        locations=places,
    )


def _typed(kind: type[Settings], values: Mapping[str, Any] | None) -> Settings:
    """A settings record. A gate that the file leaves out is not asked."""
    if values is None:
        return kind(enabled=False)  # type: ignore[call-arg]
    converted = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in values:
            value = _whole(values[field.name])
            converted[field.name] = float(value) if field.type == "float" else value
    return kind(**converted)


def _shadow_canary(values: Mapping[str, Any] | None) -> ShadowCanarySettings:
    if values is None:
        return ShadowCanarySettings(enabled=False)
    plain = {key: value for key, value in values.items() if key != "validators"}
    validators = tuple(
        Validator(**{**given, "command": tuple(given.get("command", ()))}) for given in values.get("validators", ())
    )
    return replace(_typed(ShadowCanarySettings, plain), validators=validators)


def _traffic(values: Mapping[str, Any]) -> TrafficSettings:
    log = values.get("log", ())
    lists = {"log": (log,) if isinstance(log, str) else tuple(log), "redact": tuple(values.get("redact", ()))}
    return TrafficSettings(**{**values, **lists})


def _whole(value: Any) -> Any:
    """`value` with whole numbers as such, since 16.0 is one in JSON, and lists as tuples."""
    if isinstance(value, list):
        return tuple(map(_whole, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _services(services: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, ServiceConfig]:
    named = {name: services[name] for name in ("under_test", "baseline") if name in services}
    named |= {f"tp.{size}": service for size, service in services.get("tp", {}).items()}
    return {
        name: ServiceConfig(name=name, api_key=_secret(environ, service.get("api_key_env", "")), **service)
        for name, service in named.items()
    }


def _rollback(values: Mapping[str, Any], environ: Mapping[str, str]) -> RollbackSettings:
    address = values.get("notify_webhook")
    direct = ("auto_rollback", "workflow", "ref", "on_pull_request")
    return RollbackSettings(
        notify_webhook=Secret(address) if address else _secret(environ, values.get("notify_webhook_env", "")),
        webhook_format=values.get("format", RollbackSettings().webhook_format),
        webhook_secret=_secret(environ, values.get("webhook_secret_env", "")),
        **{key: values[key] for key in direct if key in values},
    )


def _secret(environ: Mapping[str, str], variable: str) -> Secret | None:
    # Blanks around it, mostly a newline from `echo`, would make the HTTP header that carries it invalid.
    value = environ.get(variable, "").strip() if variable else ""
    return Secret(value) if value else None
