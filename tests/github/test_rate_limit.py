"""GitHub's three meanings of 403, told apart. Expected waits are worked out from its documented rules."""

from collections.abc import Mapping

import pytest

from vllm_gate.github.rate_limit import wait_for

SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


@pytest.mark.parametrize(
    ("status", "headers", "message", "attempt", "wait"),
    [
        (403, {}, "Resource not accessible by integration", 0, None),
        (404, {"retry-after": "1"}, "Not Found", 0, None),
        (403, {"retry-after": "30"}, SECONDARY, 0, 30.0),
        (429, {"retry-after": "0"}, "", 0, 0.0),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1060"}, "API rate limit exceeded", 0, 61.0),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "900"}, "API rate limit exceeded", 0, 1.0),
        (403, {"x-ratelimit-remaining": "17", "x-ratelimit-reset": "1060"}, "Must have admin rights", 0, None),
        (403, {}, SECONDARY, 0, 60.0),
        (403, {}, SECONDARY, 2, 240.0),
        (403, {"retry-after": "soon"}, "You have triggered an abuse detection mechanism", 0, 60.0),
        (403, {}, "API rate limit exceeded for installation ID 1.", 0, 60.0),
        (429, {}, "", 1, 120.0),
    ],
)
def test_how_long_to_wait(
    status: int, headers: Mapping[str, str], message: str, attempt: int, wait: float | None
) -> None:
    assert wait_for(status, headers, message, attempt=attempt, utc=1000.0) == wait
