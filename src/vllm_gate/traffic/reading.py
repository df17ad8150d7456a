"""A traffic log as a stream of requests: any known format, line by line, in constant memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vllm_gate.errors import FileProblem
from vllm_gate.traffic.batch import Batch
from vllm_gate.traffic.litellm import LiteLlm
from vllm_gate.traffic.otel import OtelSpans
from vllm_gate.traffic.request import Format, Skipped, Tally, TrafficRequest
from vllm_gate.traffic.request_only import ShareGpt, VllmBench

FORMATS: tuple[Format, ...] = (Batch(), LiteLlm(), OtelSpans(), ShareGpt(), VllmBench())
"""Every format; each row is of the first that recognises it."""
LINE_LIMIT = 16 * 2**20
"""Bytes of one line: a request is far smaller."""
BAD_SHARE = 0.01
"""Of rows that may be bad before the file is taken for damaged, once there are enough to tell."""
_ENOUGH = 200


def read_traffic(lines: Iterable[bytes], path: str, tally: Tally) -> Iterator[TrafficRequest]:
    """The requests of a file, counted into `tally`. Raises FileProblem when too many rows are bad.

    Bad rows are skipped and told; an unknown format is told at its first row, since no later one will be known.
    """
    rows = 0
    for line, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        rows += 1
        for found in _row(raw, line):
            if isinstance(found, TrafficRequest):
                tally.requests += 1
                yield found
            else:
                tally.skip(found)
        if _hopeless(tally, rows):
            break
    if _hopeless(tally, rows) or (tally.bad and not tally.requests):
        raise FileProblem(f"{path}: {_told(tally, rows)}", hint=f"known formats: {', '.join(f.name for f in FORMATS)}")


def _hopeless(tally: Tally, rows: int) -> bool:
    """Whether the file is no traffic log, or a damaged one."""
    nothing_yet = not tally.requests and tally.bad >= 10
    return nothing_yet or (rows >= _ENOUGH and tally.bad > BAD_SHARE * rows)


def _told(tally: Tally, rows: int) -> str:
    listed = "; ".join(f"line {line}: {reason}" for line, reason in tally.first_bad[:3])
    return f"{tally.bad} of {rows} rows can't be read as traffic: {listed}"


def _row(raw: bytes, line: int) -> list[TrafficRequest | Skipped]:
    if len(raw) > LINE_LIMIT:
        return [Skipped(f"a line of more than {LINE_LIMIT // 2**20} MiB", line, bad=True)]
    try:
        row = json.loads(raw)
    except ValueError:  # also of bytes that are no UTF-8
        return [Skipped("not JSON", line, bad=True)]
    except RecursionError:
        return [Skipped("JSON nested beyond sense", line, bad=True)]
    if not isinstance(row, Mapping):
        return [Skipped("no JSON object", line, bad=True)]
    return _read(row, line)


def _read(row: Mapping[str, Any], line: int) -> list[TrafficRequest | Skipped]:
    known = next((one for one in FORMATS if one.recognises(row)), None)
    if known is None:
        return [Skipped("a row of no known format", line, bad=True)]
    try:
        return known.read(row, line)
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        return [Skipped(f"a damaged {known.name} row ({type(problem).__name__})", line, bad=True)]
