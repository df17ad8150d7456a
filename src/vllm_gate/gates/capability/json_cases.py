"""What is asked for in JSON: schemas of many kinds, and a topic that makes each question one of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from vllm_gate.gates.capability.known import answer_of
from vllm_gate.judge.buckets import VALID, json_bucket
from vllm_gate.server.reply import Reply

MAX_TOKENS = 400
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_TOPICS = (
    "a harbour",
    "a bakery",
    "a mountain hut",
    "a night train",
    "an orchard",
    "a museum",
    "a ferry",
    "a beehive",
    "a lighthouse",
    "a workshop",
    "a small theatre",
    "a fish market",
    "a desert",
    "a glacier",
    "a school garden",
    "a printing press",
    "a vineyard",
    "a railway bridge",
    "a planetarium",
    "a mill",
    "a coral reef",
    "a bicycle race",
    "a choir",
    "a forest fire",
    "a chess club",
    "a salt mine",
    "a botanical garden",
    "a bookshop",
    "a waterfall",
    "a tram depot",
    "a clock tower",
    "a cheese dairy",
    "a canal lock",
    "a quarry",
    "a weather station",
    "a circus",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCase:
    """One schema and a question whose answer fits it."""

    id: str
    prompt: str
    schema: Mapping[str, Any]

    def about(self, number: int) -> JsonCase:
        """The same question about the `number`-th topic; number 0 is the plain question.

        Greedy answers to one and the same request are one answer, however often it is asked.
        """
        if number == 0:
            return self
        topic = _TOPICS[(number - 1) % len(_TOPICS)]
        return JsonCase(id=self.id, prompt=f"{self.prompt} Think of {topic}.", schema=self.schema)

    def body(self, room: int = 0) -> dict[str, Any]:
        """A request that holds the model to the schema; `room` is what it may think before, in tokens."""
        wanted = {"name": self.id, "schema": self.schema, "strict": True}
        messages = [{"role": "user", "content": self.prompt}]
        response_format = {"type": "json_schema", "json_schema": wanted}
        return {"messages": messages, "max_tokens": MAX_TOKENS + room, "response_format": response_format}

    def plain_body(self, room: int = 0) -> dict[str, Any]:
        """A request that only says what is wanted."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        wanted = f"Answer with one JSON value and no other text. It must fit this JSON Schema: {schema}"
        messages = [{"role": "user", "content": f"{self.prompt} {wanted}"}]
        return {"messages": messages, "max_tokens": MAX_TOKENS + room}

    def bucket(self, reply: Reply) -> tuple[str, str]:
        """(bucket, detail) of an answer to `body`."""
        return json_bucket(answer_of(reply), self.schema, reply.finish_reason)

    def plain_bucket(self, reply: Reply) -> tuple[str, str]:
        """(bucket, detail) of an answer to `plain_body`; a Markdown fence around the JSON is allowed."""
        said = answer_of(reply)
        fenced = _FENCED.fullmatch(said)
        return json_bucket(fenced[1] if fenced else said, self.schema, reply.finish_reason)


PROOF = JsonCase(
    id="proof",
    prompt="Say hello.",
    schema={"type": "object", "properties": {"mark": {"const": "zq-7f3a"}}, "required": ["mark"]},
)
"""A value that no model says by itself: an answer that has it proves that the parameter is honoured."""


@cache
def corpus() -> tuple[JsonCase, ...]:
    """The shipped schemas."""
    text = files("vllm_gate.gates.capability").joinpath("schemas.json").read_text(encoding="utf-8")
    return tuple(JsonCase(**case) for case in json.loads(text))


def questions(count: int) -> list[JsonCase]:
    """`count` questions over the whole corpus, no two alike up to some hundreds."""
    cases = corpus()
    return [cases[index % len(cases)].about(index // len(cases)) for index in range(count)]


def is_valid(bucket: tuple[str, str]) -> bool:
    """Whether an answer is whole and fits."""
    return bucket[0] == VALID
