"""One line of a vLLM log, taken apart: who said it, how loudly, and what.

Lines come plain, prefixed by process and rank, coloured, as JSON, or in the form of older releases. A line that has
no form at all (a traceback, a progress bar, the output of a library) is its own message.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_FORM = re.compile(
    r"^(?:\[?\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+\]?\s+)?"  # a collector's own time stamp
    r"(?:\((?P<process>[^()]{1,80})\)\s+)?"
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+"
    r"(?:\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\s+)?"
    r"(?:\[?(?P<source>[\w./-]+:\d+)\]\s*)?"
    r"(?P<text>.*)$",
    re.DOTALL,
)
_PROCESS = re.compile(r"^\((?P<process>[A-Z]\w*[^()]{0,70})\)\s+(?P<text>.*)$", re.DOTALL)
_RANK = re.compile(r"(?:_TP|rank[= ]|Worker-)(\d+)")
LONGEST = 20_000
"""Characters of a line that are read: the engine's line, the longest that matters, has about 4,000."""


@dataclass(frozen=True, slots=True)
class Message:
    """`level` is "" for a line without a form; `rank` is the tensor-parallel rank, None outside of a worker."""

    text: str
    level: str = ""
    process: str = ""
    rank: int | None = None


def parse_line(line: str) -> Message:
    """Take one line apart. Never raises: anything is at least its own text."""
    line = line[:LONGEST]
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    line = line.rstrip("\r\n")
    if line.startswith("{") and (told := _from_json(line)):
        return told
    form = _FORM.match(line) or _PROCESS.match(line)
    if not form:
        return Message(line)
    parts = form.groupdict()
    process = parts["process"] or ""
    rank = _RANK.search(process)
    return Message(parts["text"], parts.get("level") or "", process, int(rank[1]) if rank else None)


def _from_json(line: str) -> Message | None:
    """A line of a JSON formatter; its keys differ, the words for level and message hardly do."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    text = next((fields[key] for key in ("message", "msg", "event", "text") if isinstance(fields.get(key), str)), None)
    if text is None:
        return None
    level = next((str(fields[key]) for key in ("level", "levelname", "severity") if key in fields), "")
    process = str(fields.get("process_name") or fields.get("processName") or "")
    rank = _RANK.search(process)
    return Message(text, level.upper(), process, int(rank[1]) if rank else None)
