"""Traffic as users of one model would make it: chats, short and long, with JSON and with tools. Seeded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

_THINGS = ("the invoice", "my order", "this contract", "the deployment", "our roadmap", "a recipe", "the timetable")
_WANTS = ("Summarise", "Explain", "Translate", "Check", "Shorten", "Improve")
_CITIES = ("Paris", "Berlin", "Tokyo", "Rome", "Madrid", "Lisbon", "Vienna")
_COUNTRIES = ("France", "Germany", "Japan", "Italy", "Spain", "Portugal", "Austria")
_SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["title", "amount"],
}
_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}


def bodies(count: int, seed: int = 0) -> Iterator[Mapping[str, Any]]:
    """Bodies of chat requests without a model, every one another; two of ten ask for JSON, one for a tool call."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        kind = int(rng.integers(10))
        if kind < 2:
            yield _chat(
                f"Ticket {number}: give me title and amount of {rng.choice(_THINGS)} as JSON.",
                response_format={"type": "json_schema", "json_schema": {"name": "ticket", "schema": _SCHEMA}},
            )
        elif kind == 2:
            asked = f'Ticket {number}: call get_weather with city: "{rng.choice(_CITIES)}" and days = {number % 9 + 1}.'
            yield _chat(asked, tools=[_WEATHER])
        elif kind == 3:
            yield _chat(f"Ticket {number}: what is the capital of {rng.choice(_COUNTRIES)}?")
        else:
            yield _chat(f"Ticket {number}: {rng.choice(_WANTS).lower()} {rng.choice(_THINGS)}, please.")


def _chat(text: str, **more: Any) -> Mapping[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 64, "temperature": 0, **more}
