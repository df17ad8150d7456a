"""GitHub's own OpenAPI description as the judge of what was sent and answered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from openapi_core import OpenAPI
from openapi_core.testing import MockRequest, MockResponse
from openapi_schema_validator import OAS30Validator

from vllm_gate.simulator.github import Exchange

DESCRIPTION = Path(__file__).parent / "openapi" / "github.json"


@cache
def description() -> OpenAPI:
    """The description, loaded once."""
    return OpenAPI.from_dict(_with_null(json.loads(DESCRIPTION.read_text())))


def _with_null(value: Any) -> Any:
    """Nullable enums hold null, as GitHub answers. In the file they can't: Prism then validates no answer at all."""
    if isinstance(value, list):
        return [_with_null(item) for item in value]
    if not isinstance(value, dict):
        return value
    whole = {key: _with_null(item) for key, item in value.items()}
    if whole.get("nullable") and isinstance(whole.get("enum"), list):
        whole["enum"].append(None)
    return whole


def judge(exchanges: Iterable[Exchange], prefix: str = "") -> int:
    """Validate every exchange; returns how many there were. Raises openapi-core's error for the first that is wrong.

    Errors are held to the shapes that the description has for them, since it says of few operations how they fail.
    Requests are held to it always, also where the stand-in refused them.
    """
    count = 0
    for exchange in exchanges:
        parts = urlsplit(exchange.path.removeprefix(prefix))
        request = MockRequest(
            "https://api.github.com",
            exchange.method.lower(),
            parts.path,
            args={key: value[-1] for key, value in parse_qs(parts.query).items()},
            headers=dict(exchange.headers),
            data=exchange.body or None,
            content_type=exchange.headers.get("Content-Type", ""),
        )
        description().validate_request(request)
        if exchange.status < 300:
            answer = MockResponse(exchange.answer, status_code=exchange.status)
            description().validate_response(request, answer)
        else:
            _judge_error(exchange)
        count += 1
    return count


class BrokenError(ValueError):
    """An error answer in none of GitHub's shapes."""


def _judge_error(exchange: Exchange) -> None:
    schemas = json.loads(DESCRIPTION.read_text())["components"]["schemas"]
    names = ["validation-error", "validation-error-simple"] if exchange.status in (400, 422) else ["basic-error"]
    body = json.loads(exchange.answer)
    fits = any(OAS30Validator(schemas[name]).is_valid(body) for name in names)
    # The basic error requires nothing, and GitHub always says these two.
    if not fits or not {"message", "documentation_url"} <= set(body):
        raise BrokenError(f"{exchange.status}: {body} fits neither of {names}")
