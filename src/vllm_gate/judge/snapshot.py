"""A capture of one service's traces, so that two services need not be up at the same time.

The file is gzip over JSON: a header that describes itself (format, version, service, model, settings), then the
traces. Logprobs keep 5 decimals, a hundredth of what a bfloat16 step is worth. No key and no address beyond the
service's own name goes into it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vllm_gate.errors import FileProblem
from vllm_gate.judge.positions import NO_TOKEN, Positions
from vllm_gate.judge.trace import Trace

FORMAT = "vllm-gate capture"
VERSION = 1
_LARGEST = 2**30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """Traces of one service, its second pass over them (the noise floor), and its view of the perplexity text.

    `facts` describe where it comes from: service, model, version, fingerprint, when, k.
    """

    facts: Mapping[str, str]
    traces: tuple[Trace, ...]
    again: tuple[Trace, ...] = ()
    prose: tuple[Trace, ...] = ()
    limits: tuple[str, ...] = field(default=())
    """What the service could not say, in sentences."""


def to_bytes(snapshot: Snapshot) -> bytes:
    """The file's content; the same snapshot gives the same bytes."""
    body = {
        "format": FORMAT,
        "version": VERSION,
        "facts": dict(snapshot.facts),
        "limits": list(snapshot.limits),
        **{name: [_trace(trace) for trace in getattr(snapshot, name)] for name in ("traces", "again", "prose")},
    }
    return gzip.compress(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(), mtime=0)


def from_bytes(content: bytes, path: str) -> Snapshot:
    """Read a capture. Raises FileProblem for a file that is none, is cut, or is of another version."""
    body = _body(content, path)
    if body.get("format") != FORMAT:
        raise FileProblem(f"{path}: not a capture of vllm-gate", hint="`vllm-gate capture --service NAME --out FILE`")
    if body.get("version") != VERSION:
        raise FileProblem(
            f"{path}: a capture of format version {body.get('version')}, but this vllm-gate reads version {VERSION}",
            hint="capture it again with the vllm-gate that compares it",
        )
    try:
        return Snapshot(
            facts={str(key): str(value) for key, value in body["facts"].items()},
            limits=tuple(map(str, body["limits"])),
            traces=tuple(map(_read_trace, body["traces"])),
            again=tuple(map(_read_trace, body["again"])),
            prose=tuple(map(_read_trace, body["prose"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileProblem(f"{path}: a damaged capture ({type(error).__name__}: {error})") from None


def _body(content: bytes, path: str) -> dict[str, Any]:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(content, _LARGEST)
        if content.startswith(b"\x1f\x8b") and not unpacker.eof:
            raise FileProblem(f"{path}: a capture that is cut short, or too large to be one")
        body = json.loads(text)
    except (zlib.error, ValueError, RecursionError):
        raise FileProblem(f"{path}: not a capture of vllm-gate", hint="captures are gzip files") from None
    return body if isinstance(body, dict) else {}


def _trace(trace: Trace) -> dict[str, Any]:
    return {
        "id": trace.prompt_id,
        "tokens": list(trace.token_ids),
        "start": trace.start,
        "forced": _positions(trace.forced),
        "decoded": _positions(trace.decoded),
    }


def _positions(positions: Positions | None) -> dict[str, Any] | None:
    if positions is None:
        return None
    return {
        "ids": positions.ids.tolist(),
        "logprobs": _numbers(positions.logprobs),
        "target": positions.target.tolist(),
        "target_logprob": _numbers(positions.target_logprob),
    }


def _numbers(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[Any]:
    """Rounded numbers; null for what is not finite (nothing listed, or nothing said)."""
    rounded = np.where(np.isfinite(values), np.round(values, 5), np.nan).tolist()

    def plain(value: Any) -> Any:
        return [plain(item) for item in value] if isinstance(value, list) else None if value != value else value

    result: list[Any] = plain(rounded)
    return result


def _read_trace(fields: Mapping[str, Any]) -> Trace:
    return Trace(
        prompt_id=str(fields["id"]),
        token_ids=tuple(int(token) for token in fields["tokens"]),
        start=int(fields["start"]),
        forced=_read_positions(fields["forced"]),
        decoded=_read_positions(fields["decoded"]),
    )


def _read_positions(fields: Mapping[str, Any] | None) -> Positions | None:
    if fields is None:
        return None
    ids = np.array(fields["ids"], dtype=np.int32)
    ids = (
        ids.reshape(len(fields["target"]), -1) if ids.size else np.full((len(fields["target"]), 1), NO_TOKEN, np.int32)
    )
    logprobs = np.array(_filled(fields["logprobs"], -np.inf), dtype=np.float64).reshape(ids.shape)
    target_logprob = np.array(_filled(fields["target_logprob"], np.nan), dtype=np.float64)
    return Positions(ids, logprobs, np.array(fields["target"], dtype=np.int32), target_logprob)


def _filled(values: Sequence[Any], filler: float) -> list[Any]:
    return [_filled(v, filler) if isinstance(v, list) else filler if v is None else v for v in values]
