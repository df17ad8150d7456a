"""The execution path: what a server says of its own dtypes, backends, kernels and fusions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vllm_gate.path.fallbacks import Fallback, FallbackReader
from vllm_gate.path.lines import Message, parse_line
from vllm_gate.path.rules import COMPILATION, ENGINE_FIELDS, ENGINE_LINE, RULES

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
_SEVERAL = {"fusions", "allreduce_backends"}
_MENTIONS = re.compile("|".join(f"(?:{rule.pattern})" for rule in RULES) + "|Initializing a V1 LLM engine")
FIELDS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            "runtime_version",
            *ENGINE_FIELDS.values(),
            *(name for name, _ in COMPILATION),
            *(rule.field for rule in RULES),
        ]
    )
)
"""Every field a record has, in the order in which it is shown."""


class State(StrEnum):
    """How much is known of a field."""

    OBSERVED = "observed"
    """The log says it."""
    ABSENT = "absent"
    """The log says enough to know that it would say this, and does not."""
    UNKNOWN = "unknown"
    """The log does not say enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One field: its value as text (several joined by ", "), and the line that proves it.

    `by_rank` is filled where tensor-parallel ranks disagree, which is a finding of its own.
    """

    state: State
    value: str | None = None
    line: str = ""
    line_number: int = 0
    by_rank: Mapping[int, str] = field(default_factory=dict)


_UNKNOWN = Observation(state=State.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPath:
    """Everything one log says. `fallbacks` are the lines in which a server gives up a path for another."""

    fields: Mapping[str, Observation]
    fallbacks: tuple[Fallback, ...] = ()

    def __getitem__(self, name: str) -> Observation:
        """The observation of a field; UNKNOWN for one that the record does not have."""
        return self.fields.get(name, _UNKNOWN)

    @property
    def quantization(self) -> Observation:
        """The quantisation method the engine runs, "None" where it runs none."""
        return self["quantization"]


def read_log(lines: Iterable[str]) -> ExecutionPath:
    """Read a startup log, line by line, in constant memory. Never raises on any content."""
    reader = _Reader()
    for number, line in enumerate(lines, start=1):
        reader.read(number, line)
    return reader.record()


def canonical(name: str, value: str) -> str:
    """A field's value as it is compared: dtypes by their short names, lists sorted or kept in their order."""
    value = value.strip().strip("'\"")
    if name.startswith("dtype") and value.removeprefix("torch.") in _DTYPES:
        return _DTYPES[value.removeprefix("torch.")]
    if name == "fusions":
        return ", ".join(sorted(part.strip() for part in value.split(",")))
    if name == "allreduce_backends" and value.startswith("["):
        try:
            return ", ".join(ast.literal_eval(value))
        except (ValueError, SyntaxError):
            return value
    if name == "attention_backend":
        return value.upper().replace(" ", "_")
    return value


class _Reader:
    def __init__(self) -> None:
        self._patterns = [(rule, rule.compiled()) for rule in RULES]
        self._values: dict[str, dict[int | None, list[str]]] = {}
        self._proofs: dict[str, tuple[str, int]] = {}
        self._fallbacks = FallbackReader()
        self._engine_seen = False

    def read(self, number: int, line: str) -> None:
        """Take in one line."""
        message = parse_line(line)
        self._fallbacks.read(number, message)
        if not _MENTIONS.search(message.text):
            return
        if engine := ENGINE_LINE.search(message.text):
            self._engine(engine["version"], engine["config"], number, line)
            return
        for rule, pattern in self._patterns:
            if found := pattern.search(message.text):
                self._note(rule.field, rule.value or found[1], number, line, message, many=rule.many)

    def record(self) -> ExecutionPath:
        """What was read so far."""
        return ExecutionPath(
            fields={name: self._observation(name) for name in FIELDS}, fallbacks=self._fallbacks.found()
        )

    def _engine(self, version: str, config: str, number: int, line: str) -> None:
        self._engine_seen = True
        message = Message("")
        self._note("runtime_version", version, number, line, message)
        # Values hold commas and braces, so each ends where the next known form `, key=` begins.
        for key, value in re.findall(r"(?:^|, )(\w+)=(.*?)(?=, \w+=|$)", config, re.DOTALL):
            if key in ENGINE_FIELDS:
                self._note(ENGINE_FIELDS[key], value, number, line, message)
        for name, pattern in COMPILATION:
            if found := pattern.search(config):
                self._note(name, next(group for group in found.groups() if group), number, line, message)

    def _note(self, name: str, value: str, number: int, line: str, message: Message, *, many: bool = False) -> None:
        values = self._values.setdefault(name, {}).setdefault(message.rank, [])
        told = canonical(name, value)
        if told not in values:
            if not many:
                values.clear()
            values.append(told)
        self._proofs.setdefault(name, (line.strip()[:1000], number))

    def _observation(self, name: str) -> Observation:
        values = self._values.get(name)
        if not values:
            return Observation(state=State.ABSENT if self._engine_seen else State.UNKNOWN)
        joined = {rank: ", ".join(sorted(set(told)) if name not in _SEVERAL else told) for rank, told in values.items()}
        ranked = {rank: value for rank, value in joined.items() if rank is not None}
        line, number = self._proofs[name]
        return Observation(
            state=State.OBSERVED,
            value=" | ".join(sorted(set(joined.values()))),
            line=line,
            line_number=number,
            by_rank=ranked if len(set(ranked.values())) > 1 else {},
        )
