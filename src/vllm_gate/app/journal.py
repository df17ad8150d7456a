"""The canary's journal: a header, then a line of JSON an outcome, in the order of the sample.

It holds no text of a user's unless `keep_text` allows it. A run that is killed loses at most the line it was writing.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from vllm_gate.app.files import write_atomically
from vllm_gate.errors import FileProblem
from vllm_gate.gates.canary.outcome import Outcome, from_row, to_row

KIND = "vllm-gate canary journal 1"


class JournalFile:
    """See `Journal`. Used by one run at a time."""

    def __init__(self, path: Path, header: Mapping[str, Any], *, resume: bool) -> None:
        """Begin a journal, or with `resume` go on with one. Raises FileProblem when it is another canary's."""
        self._path = path
        if not (resume and path.exists()):
            write_atomically(path, _line({"kind": KIND, **header}))
        try:
            self._file = path.open("r+b")
        except OSError as problem:
            raise FileProblem(f"{path}: the journal can't be written: {problem.strerror}") from problem
        try:
            self._end = self._taken_over(header)
        except BaseException:
            self._file.close()
            raise

    def _taken_over(self, header: Mapping[str, Any]) -> int:
        """The end of what is whole in the journal, once it is ours."""
        path = self._path
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileProblem(f"{path}: another run is writing this journal", hint="give --journal its own") from None
        if changed := differing(read_header(self._file, path), header):
            raise FileProblem(
                f"{path}: this journal was begun with another {changed}",
                hint="go on with the settings and services it was begun with, or begin a new journal",
            )
        return _drop_torn_line(self._file)

    def before(self) -> Iterator[Outcome]:
        """See `Journal`."""
        self._file.seek(0)
        self._file.readline()
        yield from outcomes(self._file, self._path, self._end)
        self._file.seek(self._end)

    def add(self, outcome: Outcome) -> None:
        """See `Journal`."""
        self._file.write(_line(to_row(outcome)))
        self._file.flush()  # what the system has survives us

    def close(self) -> None:
        """Let others write it."""
        self._file.close()


def read_header(file: IO[bytes], path: Path) -> dict[str, Any]:
    """The first line. Raises FileProblem when the file is no journal."""
    try:
        header = json.loads(file.readline())
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise FileProblem(f"{path}:1: this is no journal of a canary", hint="`vllm-gate shadow --journal` writes one")
    return {key: value for key, value in header.items() if key != "kind"}


def differing(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What two headers do not agree on, in words; "" when they do."""
    plain: Mapping[str, Any] = json.loads(json.dumps(wanted))
    return ", ".join(dict.fromkeys(key for key in (*plain, *found) if found.get(key) != plain.get(key)))


def outcomes(file: IO[bytes], path: Path, end: int | None = None) -> Iterator[Outcome]:
    """The outcomes after the header, up to the byte `end`. Raises FileProblem at a line that is none."""
    last = -1
    for number, line in enumerate(iter(file.readline, b""), 2):
        if not line.endswith(b"\n"):
            return
        try:
            outcome = from_row(json.loads(line))
        except ValueError as problem:
            raise FileProblem(f"{path}:{number}: {problem}", hint="begin a new journal") from None
        if outcome.number <= last:
            raise FileProblem(f"{path}:{number}: request {outcome.number} stands behind request {last}")
        last = outcome.number
        yield outcome
        if end is not None and file.tell() >= end:
            return


def _drop_torn_line(file: IO[bytes]) -> int:
    """Cut off what a killed run left of its last line; returns the end of the file."""
    size = file.seek(0, 2)
    back = min(size, 1 << 20)
    file.seek(size - back)
    whole = file.read(back).rfind(b"\n") + 1
    end = size - back + whole
    if end < size:
        file.truncate(end)
    file.seek(end)
    return end


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
