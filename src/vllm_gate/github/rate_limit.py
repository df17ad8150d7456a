"""When to ask again. Pure: GitHub's three ways of saying "too fast", and what is none of them.

Order of the signs as in GitHub's own "Rate limits for the REST API": `retry-after`, then `x-ratelimit-remaining: 0`
with `x-ratelimit-reset`, then a minute, doubled each time. The last one is only known by its words.
"""

from __future__ import annotations

from collections.abc import Mapping

SECONDARY_WAIT_S = 60.0
_WORDS = ("rate limit exceeded", "secondary rate limit", "abuse detection")


def wait_for(status: int, headers: Mapping[str, str], message: str, *, attempt: int, utc: float) -> float | None:
    """Seconds until the same request may be sent again; None when the answer is not about rates.

    `attempt` counts from 0, `utc` is the time in epoch seconds, `headers` are case-insensitive.
    """
    if status not in (403, 429):
        return None
    told = _number(headers.get("retry-after"))
    if told is not None:
        return max(told, 0.0)
    reset = _number(headers.get("x-ratelimit-reset"))
    if headers.get("x-ratelimit-remaining") == "0" and reset is not None:
        return max(reset - utc, 0.0) + 1.0
    if status == 429 or any(words in message.lower() for words in _WORDS):
        return SECONDARY_WAIT_S * 2.0**attempt
    return None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
