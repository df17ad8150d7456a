"""The plan's services as clients: one for each that has an address."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_gate.config.plan import Plan
from vllm_gate.core.report import ServiceFacts
from vllm_gate.errors import GateError
from vllm_gate.server.connect import connect
from vllm_gate.server.interface import Service


def connect_all(plan: Plan, allowed_hosts: frozenset[str] | None) -> dict[str, Service]:
    """A client a service that has a `base_url`, by name. Nothing is sent yet."""
    return {
        name: connect(
            name=name,
            base_url=service.base_url,
            model=service.model,
            api=service.api,
            api_key=service.api_key,
            timeout_s=service.timeout_sec,
            allowed_hosts=allowed_hosts,
        )
        for name, service in plan.services.items()
        if service.base_url
    }


def describe(services: Mapping[str, Service]) -> tuple[ServiceFacts, ...]:
    """Who was asked. Only the release under test is asked for its version: the others may be far away or down."""
    return tuple(
        ServiceFacts(
            name=name,
            base_url=service.base_url,
            model=service.model,
            version=_version(service) if name == "under_test" else "",
        )
        for name, service in services.items()
    )


def _version(service: Service) -> str:
    try:
        return service.version() or ""
    except GateError:
        return ""
