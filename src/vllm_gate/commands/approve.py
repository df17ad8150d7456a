"""`vllm-gate approve`: write the execution path that a log shows to the lock, for review in a pull request."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from vllm_gate.app.checkpoint import read_headers
from vllm_gate.app.files import read_bytes, write_atomically
from vllm_gate.app.logs import open_log
from vllm_gate.errors import ExitCode, FileProblem, UsageError
from vllm_gate.path.checkpoint import read_checkpoint
from vllm_gate.path.diff import changes, unapproved, unapproved_contradictions
from vllm_gate.path.lock import Lock, approve, parse, to_text
from vllm_gate.path.record import State, read_chunks
from vllm_gate.path.sources import merge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `approve`."""
    parser.add_argument("--log", required=True, help="startup log: a path, docker:NAME, or - for standard input")
    parser.add_argument("--reason", default="", help="why the fallbacks in it are fine; needed when there are new ones")
    parser.add_argument("--expires", default="", metavar="YYYY-MM-DD", help="last day of new approvals of fallbacks")
    parser.add_argument("--lock-file", type=Path, default=Path("vllm-gate.lock.json"), help="file to write")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Write the lock and say what it approves anew."""
    told = read_chunks(open_log(arguments.log).chunks())
    record = merge(told, [read_checkpoint(read_headers(told["model"].value or ""))])
    if not any(seen.state is State.OBSERVED for seen in told.fields.values()):
        raise FileProblem(
            f"{arguments.log}: no startup log of vLLM", hint="give the log from the server's first line on"
        )
    path: Path = arguments.lock_file
    previous = (
        parse(read_bytes(path, "lock file").decode("utf-8", errors="replace"), str(path)) if path.exists() else None
    )
    today = datetime.datetime.now(datetime.UTC).date()
    new = unapproved(record, previous, today)
    odd = unapproved_contradictions(record, previous, today)
    if (new or odd) and not arguments.reason.strip():
        listed = [f"  line {fallback.line_number}: {fallback.line}" for fallback in new]
        listed += [f"  {contradiction.sentence}" for contradiction in odd]
        raise UsageError(
            "nobody has approved these yet:\n" + "\n".join(listed), hint='say why they are fine: --reason "…"'
        )
    lock = approve(record, reason=arguments.reason, today=today, expires=_date(arguments.expires), previous=previous)
    write_atomically(path, to_text(lock).encode())
    for change in changes(record, previous or Lock()):
        print(f"approved: {change}")
    for fallback in new:
        print(f"approved: fallback: {fallback.id}")
    for contradiction in odd:
        print(f"approved: contradiction: {contradiction.sentence}")
    print(f"wrote {path}: {len(lock.facts)} facts, {len(lock.fallbacks)} fallbacks")
    return ExitCode.PASS


def _previous(path: Path) -> Lock | None:
    return parse(read_bytes(path, "lock file").decode("utf-8", errors="replace"), str(path)) if path.exists() else None


def _date(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if text else None
    except ValueError:
        raise UsageError(f"--expires {text}: no date; write YYYY-MM-DD") from None
