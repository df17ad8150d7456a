"""One line of a vLLM log, taken apart: who said it, how loudly, and what.

Lines come plain, prefixed by process and rank, coloured, as JSON, or in the form of older releases. A line that has
no form at all (a traceback, a progress bar, the output of a library) is its own message.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TypeAlias

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
_RANKS = re.compile(r"_((?:DP|PP|TP)\d+)")
_OLD_RANK = re.compile(r"(?:rank[= ]|Worker-)(\d+)")
_PID = re.compile(r"pid=(\d+)")
LONGEST = 20_000
"""Characters of a line that are read: the engine's line, the longest that matters, has about 6,000."""

Speaker: TypeAlias = int | str
"""A process id, or a rank where the log gives no ids."""


@dataclass(frozen=True, slots=True)
class Message:
    """`level` is "" for a line without a form; `rank` names a worker ("TP0", "DP1_TP0"), "" for any other speaker.

    A worker logs as plain `Worker` until it knows its rank, so `pid` ties its early lines to the later ones.
    """

    text: str
    level: str = ""
    rank: str = ""
    pid: int = 0

    @property
    def speaker(self) -> Speaker:
        """The process that said it, as well as the line tells; "" where it does not."""
        return self.pid or self.rank


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
    return _message(parts["text"], parts.get("level") or "", parts["process"] or "")


def _message(text: str, level: str, process: str) -> Message:
    pid = _PID.search(process)
    return Message(text, level, _rank(process), int(pid[1]) if pid else 0)


def _rank(process: str) -> str:
    if ranks := _RANKS.findall(process):
        return "_".join(ranks)
    old = _OLD_RANK.search(process)
    return f"TP{old[1]}" if old else ""


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
    name = str(fields.get("process_name") or fields.get("processName") or "")
    pid = fields.get("process", fields.get("pid", ""))
    return _message(text, level.upper(), f"{name} pid={pid}" if isinstance(pid, int) else name)
