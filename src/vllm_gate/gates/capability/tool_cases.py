"""What is asked with tools: single, forced, parallel and none; every JSON type in the arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_TOKENS = 300
"""About three times what the longest call needs."""


def _tool(name: str, description: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = _tool("get_weather", "The weather in a city.", city={"type": "string"}, days={"type": "integer"})
BOOK = _tool(
    "book_table",
    "Book a table in a restaurant.",
    guests={"type": "integer"},
    deposit={"type": "number"},
    outside={"type": "boolean"},
    note={"type": ["string", "null"]},
    kind={"enum": ["lunch", "dinner"]},
    dishes={"type": "array", "items": {"type": "string"}},
    contact={
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    },
)
"""Every JSON type in one call, the ones that are no strings in the middle: that is where streamed calls break."""
TIME = _tool("get_time", "The time in a city.", city={"type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCase:
    """One conversation. `calls` is how many calls it needs at least."""

    id: str
    prompt: str
    tools: Sequence[Mapping[str, Any]]
    calls: int
    choice: Any = "auto"

    @property
    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The parameters' schema of each tool, by name."""
        return {tool["function"]["name"]: tool["function"]["parameters"] for tool in self.tools}

    def body(self, room: int = 0) -> dict[str, Any]:
        """The request; `room` is what the model may think before it answers, in tokens."""
        messages = [{"role": "user", "content": self.prompt}]
        return {
            "messages": messages,
            "max_tokens": MAX_TOKENS + room,
            "tools": list(self.tools),
            "tool_choice": self.choice,
        }


CASES = (
    ToolCase(id="single", prompt='Call get_weather with city = "Oslo" and days = 3.', tools=(WEATHER, TIME), calls=1),
    ToolCase(
        id="typed",
        prompt='Call book_table with guests = 4, deposit = 12.5, outside = true, note = null, kind = "dinner", '
        'dishes = ["soup", "bread"], contact = {"name": "Ada", "age": 36}.',
        tools=(BOOK,),
        calls=1,
    ),
    ToolCase(
        id="forced",
        prompt='It rains in city = "Bergen" for days = 2.',
        tools=(WEATHER, TIME),
        calls=1,
        choice={"type": "function", "function": {"name": "get_weather"}},
    ),
    ToolCase(
        id="required",
        prompt='What may I expect in city = "Turku", days = 5?',
        tools=(WEATHER,),
        calls=1,
        choice="required",
    ),
    ToolCase(
        id="parallel",
        prompt='Call get_weather with city = "Rome" and days = 1, and also call get_time with city = "Rome".',
        tools=(WEATHER, TIME),
        calls=2,
    ),
    ToolCase(id="none_needed", prompt="Reply with exactly: OK", tools=(WEATHER, TIME), calls=0),
    ToolCase(id="none_allowed", prompt="Reply with exactly: OK", tools=(WEATHER, TIME), calls=0, choice="none"),
)
