"""The recorded answers, and the comparison that holds for the simulator and for a live vLLM alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.simulator_contract.shapes import difference, events, metric_types, shape

_FOLDER = Path(__file__).with_name("recorded")
HEALTHY = "healthy-tp1"
FAULTY = "fp32-as-bf16-tp3"


def recorded(name: str) -> Mapping[str, Any]:
    """Exchange name to `{request, response}`."""
    answers: Mapping[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return answers


def departures(real: Mapping[str, Any], response: Mapping[str, Any], *, of: str) -> list[str]:
    """How one response departs from the recorded one: status, kind of body, fields and types; each a sentence."""
    if real["status"] != response["status"]:
        return [f"{of} answers {response['status']}, not {real['status']}: {str(response)[:300]}"]
    bodies = [key for key in ("json", "sse", "text") if key in real]
    if not all(key in response for key in bodies):
        return [f"{of} answers {response['content_type']}, not {real['content_type']}"]
    if "sse" in real:
        return _stream_departures(events(real["sse"]), events(response["sse"]), of)
    if "json" in real:
        return difference(shape(real["json"]), shape(response["json"]), other_name=of)
    return _metric_departures(metric_types(real["text"]), metric_types(response["text"]), of)


def _stream_departures(real: list[Any], chunks: list[Any], of: str) -> list[str]:
    """The first chunk, those between, and the last before `[DONE]`, each against its like.

    Which chunk has what in its `delta` depends on the text and where it is cut, so deltas are compared all together;
    text itself may be missing, for vLLM leaves `content` out where a token has none.
    """
    if chunks[-1] != "[DONE]":
        return [f"{of} does not end its stream with [DONE]"]
    parts = {"first chunk": slice(0, 1), "chunks": slice(1, -2), "last chunk": slice(-2, -1), "all": slice(0, -1)}
    return [
        f"{part}: {sentence}"
        for part, which in parts.items()
        for sentence in difference(shape(*real[which]), shape(*chunks[which]), other_name=of)
        if ("delta." in sentence) == (part == "all") and not sentence.endswith("delta.content")
    ]


def _metric_departures(real: Mapping[str, str], types: Mapping[str, str], of: str) -> list[str]:
    return [
        f"{of} has {name} as {kind}, not {real.get(name)}" for name, kind in types.items() if real.get(name) != kind
    ]
