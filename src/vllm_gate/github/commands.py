"""The runner's commands and files: masks, annotations, outputs, the job summary. One adapter over actions-toolkit.

Three things of the toolkit are not used: `set_failed` exits at once and would leave check runs open; the job summary
is not there; and without its file an output would be printed as a command that the runner no longer takes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from actions_toolkit import core
from actions_toolkit.command import issue_command

from vllm_gate.core.finding import Location
from vllm_gate.core.printable import printable

SUMMARY_LIMIT = 1_000_000
"""Bytes. Of a step's summary that is larger than 1 MiB the runner shows nothing."""
MESSAGE_LIMIT = 4_000
"""Characters. The runner cuts an annotation's message at 4,096."""
ANNOTATIONS_A_LEVEL = 10
"""The runner records no more than these, a step and level."""


class WorkflowCommands:
    """Speaks to the runner through `out`, the real standard output, and the files that its variables name."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def mask(self, value: str) -> None:
        """Have the runner hide `value` in everything printed from now on, each of its lines too."""
        for line in filter(str.strip, value.splitlines()):
            with self._printing():
                core.set_secret(line)

    def annotate(self, level: str, message: str, *, title: str = "", at: Location | None = None) -> None:
        """An annotation; `level` is `error`, `warning` or `notice`. Files are relative to the workspace."""
        place = {"file": at.path, "line": at.line, "col": at.column} if at else {}
        properties = {key: str(value) for key, value in {"title": title, **place}.items() if value}
        with self._printing():
            issue_command(level, properties, printable(message)[:MESSAGE_LIMIT])

    @contextlib.contextmanager
    def group(self, name: str) -> Iterator[None]:
        """What is printed inside can be folded away in the log."""
        with self._printing():
            core.start_group(printable(name, one_line=True))
        try:
            yield
        finally:
            with self._printing():
                core.end_group()

    def output(self, name: str, value: str) -> None:
        """An output of the step."""
        if os.environ.get("GITHUB_OUTPUT"):
            core.set_output(name, value)

    def summary(self, markdown: str) -> None:
        """Add to the job's summary. The caller keeps it below `SUMMARY_LIMIT`."""
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if path:
            with Path(path).open("a", encoding="utf-8", newline="\n") as file:
                file.write(markdown if markdown.endswith("\n") else markdown + "\n")

    @contextlib.contextmanager
    def _printing(self) -> Iterator[None]:
        """The toolkit prints to `sys.stdout`, which is neutralised while the action runs."""
        sys.stdout.flush()
        with contextlib.redirect_stdout(self._out):
            yield
        self._out.flush()
