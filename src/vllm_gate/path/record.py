"""The execution path: what a server says of its own dtypes, backends, kernels and fusions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vllm_gate.path.fallbacks import VOCABULARY, Fallback, FallbackReader
from vllm_gate.path.lines import Message, Speaker, parse_line
from vllm_gate.path.rules import (
    ATTENTION_NAMES,
    COMPILE_MODES,
    ENGINE_FIELDS,
    ENGINE_LINE,
    GRAPH_MODES,
    INSIDE_ENGINE,
    NEEDLES,
    RUNS_ARGUMENTS,
    UP,
    WARM_CACHE,
    Rule,
)
from vllm_gate.path.scan import Scanner, blocks_of_chunks, blocks_of_lines
from vllm_gate.path.table import RULES

OUTSIDE: tuple[str, ...] = ("hardware", "dtype_rmsnorm_weight", "dtype_weights", "checkpoint_quantization")
"""Fields that no log tells: the server's own endpoints or the checkpoint's headers do."""
FIELDS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            "runtime_version",
            *ENGINE_FIELDS.values(),
            *(name for name, _ in INSIDE_ENGINE),
            *(rule.field for rule in RULES),
            *OUTSIDE,
        ]
    )
)
"""Every field a record has, in the order in which it is shown."""
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
_NUMBERED: dict[str, dict[tuple[int, ...], str]] = {
    "compile_mode": {(mode,): name for mode, name in COMPILE_MODES.items()},
    "cudagraph_mode": GRAPH_MODES,
}
_IN_ORDER = {"fusions", "allreduce_backends"}
_MOST_VALUES = 200
"""Values kept of one field and speaker, so that memory stays flat."""


class State(StrEnum):
    """How much is known of a field."""

    OBSERVED = "observed"
    """The server says it."""
    ABSENT = "absent"
    """The log says enough to know that it would say this, and does not."""
    UNKNOWN = "unknown"
    """The log does not say enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One field: its value as text (several joined by ", "), and the line that proves it.

    `by_rank` is filled where workers disagree, which is a finding of its own. `source` is "log", or what else told
    the value (`/version`, `/server_info`, `checkpoint`); a line number of 0 means that there is no line.
    """

    state: State
    value: str | None = None
    line: str = ""
    line_number: int = 0
    by_rank: Mapping[str, str] = field(default_factory=dict)
    source: str = "log"


_UNKNOWN = Observation(state=State.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPath:
    """Everything a server tells. `fallbacks` are the messages in which it gives up a path for another.

    `whole`: the log holds a start from the engine's line to the server being up; what a cut log does not say may have
    been said. `disagreements` are sentences: two sources that tell different values of one field (`sources.merge`).
    """

    fields: Mapping[str, Observation]
    fallbacks: tuple[Fallback, ...] = ()
    whole: bool = False
    disagreements: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Observation:
        """The observation of a field; UNKNOWN for one that the record does not have."""
        return self.fields.get(name, _UNKNOWN)

    @property
    def quantization(self) -> Observation:
        """The quantisation method the engine runs, "None" where it runs none."""
        return self["quantization"]


def read_log(lines: Iterable[str]) -> ExecutionPath:
    """Read a startup log, line by line, in constant memory. Never raises on any content."""
    return _read(blocks_of_lines(lines))


def read_chunks(chunks: Iterable[bytes]) -> ExecutionPath:
    """The same from the bytes of a log, cut anywhere: several times as fast on a large one."""
    return _read(blocks_of_chunks(chunks))


def canonical(name: str, value: str) -> str:
    """A field's value as it is compared: dtypes by their short names, lists sorted or kept in their order."""
    value = value.strip().strip("'\"")
    if name.startswith("dtype") and value.removeprefix("torch.") in _DTYPES:
        return _DTYPES[value.removeprefix("torch.")]
    if name == "fusions":
        return ", ".join(sorted(part.strip() for part in value.split(",")))
    if name == "allreduce_backends" and value.startswith("["):
        try:
            return ", ".join(map(str, ast.literal_eval(value)))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return value
    if name == "attention_backend":
        backend = value.upper().replace(" ", "_")
        return ATTENTION_NAMES.get(backend, backend)
    if name in _NUMBERED and re.fullmatch(r"[\d, \[\]]+", value):
        return _NUMBERED[name].get(tuple(map(int, re.findall(r"\d+", value))), value)
    return value


_SCANNER = Scanner(
    [
        *NEEDLES,
        *(rule.needle for rule in RULES),
        *(needle for needle, _ in VOCABULARY),
        " DEBUG ",
        '"DEBUG"',
        "assigned as",
    ]
)
_PATTERNS = tuple((rule, re.compile(rule.pattern)) for rule in RULES)
_BY_FIELD = {name: tuple(rule for rule in RULES if rule.field == name) for name in FIELDS}
_ASSIGNED = re.compile(r"rank \d+ in world size (\d+) is assigned as .*?TP rank (\d+)")


def _read(blocks: Iterable[bytes]) -> ExecutionPath:
    start = _Start()
    for number, line in _SCANNER.lines(blocks):
        message = parse_line(line)
        if start.engine_seen and RUNS_ARGUMENTS in message.text:
            start = _Start()
        start.read(number, line, message)
    return start.record()


@dataclass(frozen=True, slots=True)
class _Said:
    value: str
    line: str
    line_number: int


class _Start:
    """One start of a server, as far as its log has been read."""

    def __init__(self) -> None:
        self.engine_seen = False
        self._up = self._debug = self._warm = False
        self._said: dict[str, dict[Speaker, list[_Said]]] = {}
        self._ranks: dict[Speaker, str] = {}
        self._fallbacks = FallbackReader()

    def read(self, number: int, line: str, message: Message) -> None:
        """Take in one line that holds a needle."""
        if message.rank:
            self._ranks[message.speaker] = message.rank
        elif message.pid and (assigned := _ASSIGNED.search(message.text)) and assigned[1] != "1":
            self._ranks.setdefault(message.pid, f"TP{assigned[2]}")
        self._debug |= message.level == "DEBUG"
        self._up |= bool(UP.search(message.text))
        self._warm |= bool(WARM_CACHE.search(message.text))
        self._fallbacks.read(number, message)
        if engine := ENGINE_LINE.search(message.text):
            self._engine(engine["version"], engine["config"], number, line)
            return
        for rule, pattern in _PATTERNS:
            if rule.needle in message.text and (found := pattern.match(message.text)):
                value = rule.value or next((group for group in found.groups() if group), "")
                self._note(rule.field, _Said(canonical(rule.field, value), line.strip()[:1000], number), message, rule)

    def record(self) -> ExecutionPath:
        """What was read so far."""
        return ExecutionPath(
            fields={name: self._observation(name) for name in FIELDS},
            fallbacks=self._fallbacks.found(self._ranks),
            whole=self.engine_seen and self._up,
        )

    def _engine(self, version: str, config: str, number: int, line: str) -> None:
        self.engine_seen = True

        def note(name: str, value: str) -> None:
            self._said[name] = {"": [_Said(canonical(name, value), line.strip()[:1000], number)]}

        note("runtime_version", version)
        # Values hold commas and braces, so each ends where the next known form `, key=` begins.
        for key, value in re.findall(r"(?:^|, )(\w+)=(.*?)(?=, \w+=|$)", config, re.DOTALL):
            if key in ENGINE_FIELDS:
                note(ENGINE_FIELDS[key], value)
        for name, pattern in INSIDE_ENGINE:
            if found := pattern.search(config):
                note(name, next(group for group in found.groups() if group))

    def _note(self, name: str, said: _Said, message: Message, rule: Rule) -> None:
        said_by = self._said.setdefault(name, {}).setdefault(message.speaker, [])
        if any(earlier.value == said.value for earlier in said_by) or len(said_by) >= _MOST_VALUES:
            return
        if not rule.many:
            said_by.clear()
        said_by.append(said)

    def _observation(self, name: str) -> Observation:
        speakers = self._said.get(name)
        if not speakers:
            return Observation(state=State.ABSENT if self._would_say(name) else State.UNKNOWN)
        joined = {speaker: _joined(name, said) for speaker, said in speakers.items()}
        ranked = {self._ranks[speaker]: value for speaker, value in joined.items() if speaker in self._ranks}
        proof = min((said for several in speakers.values() for said in several), key=lambda said: said.line_number)
        return Observation(
            state=State.OBSERVED,
            value=" | ".join(sorted(set(joined.values()))),
            line=proof.line,
            line_number=proof.line_number,
            by_rank=dict(sorted(ranked.items())) if len(set(ranked.values())) > 1 else {},
        )

    def _would_say(self, name: str) -> bool:
        """Whether this server, at this release and log level, would have told the field if there were one.

        A key that the engine's line lacks is one that this release does not print.
        """
        if not (self.engine_seen and self._up):
            return False
        version = _release(self._said["runtime_version"][""][0].value)
        return any(
            (self._debug or not rule.debug)
            and not (rule.compiling and self._warm)
            and _release(rule.since) <= version
            and (not rule.until or version <= _release(rule.until))
            for rule in _BY_FIELD[name]
        )


def _joined(name: str, said: list[_Said]) -> str:
    values = [one.value for one in said]
    return ", ".join(values if name in _IN_ORDER else sorted(values))


def _release(version: str) -> tuple[int, ...]:
    """Major and minor number. A version that has none (a build from source) counts as new."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (9999,)
