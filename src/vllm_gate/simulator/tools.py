"""Tool calls: which functions a request calls for, and with what arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.structured import instance
from vllm_gate.simulator.tokenizer import content_text


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the function's name, and its arguments as JSON text."""

    name: str
    arguments: str

    def as_text(self) -> str:
        """The call as the model writes it, in Hermes' form."""
        return f'<tool_call>\n{{"name": "{self.name}", "arguments": {self.arguments}}}\n</tool_call>'


def calls_for(body: Mapping[str, Any], faults: Faults) -> tuple[Call, ...]:
    """The calls that the conversation asks for; empty where no tool is needed or allowed."""
    tools: Sequence[Mapping[str, Any]] = [tool["function"] for tool in body.get("tools") or [] if "function" in tool]
    choice = body.get("tool_choice", "auto")
    if not tools or choice == "none":
        return ()
    messages = body.get("messages") or [{}]
    if messages[-1].get("role") == "tool":
        return ()
    said = content_text(messages[-1])
    if isinstance(choice, dict):
        wanted = [tool for tool in tools if tool["name"] == choice["function"]["name"]]
    else:
        wanted = [tool for tool in tools if _mentioned(tool, said)] or (list(tools[:1]) if choice == "required" else [])
    calls = tuple(Call(tool["name"], _arguments(tool, said, faults)) for tool in wanted)
    return calls[:1] if "parallel_merged" in faults or body.get("parallel_tool_calls") is False else calls


def _mentioned(tool: Mapping[str, Any], said: str) -> bool:
    """Whether the words of a function's name stand in what was said."""
    words = re.findall(r"[a-z]+", tool["name"].lower())
    spoken = set(re.findall(r"[a-z]+", said.lower()))
    return (bool(words) and set(words) <= spoken) or tool["name"] in said


def _arguments(tool: Mapping[str, Any], said: str, faults: Faults) -> str:
    schema = tool.get("parameters") or {"type": "object"}
    values = instance(schema, schema)
    for name, property_schema in schema.get("properties", {}).items():
        stated = _stated(name, property_schema, said)
        if stated is not None:
            values[name] = stated
    if "int_as_string" in faults:
        values = {
            key: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
            for key, value in values.items()
        }
    return json.dumps(values, ensure_ascii=False)


def _stated(name: str, schema: Mapping[str, Any], said: str) -> Any:
    """The value that the message states for an argument, as in `count = 3` or `city: "Paris"`; None without one."""
    found = re.search(rf"\b{re.escape(name)}\s*[=:]\s*", said)
    if not found:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(said, found.end())
        return value
    except ValueError:
        word = re.match(r"[\w-]+", said[found.end() :])
        return word[0] if word and schema.get("type") == "string" else None
