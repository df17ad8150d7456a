"""Which requests are shadowed: a hash decides, so that every run and every shard picks the same ones."""

from __future__ import annotations

import hashlib

from vllm_gate.traffic.request import TrafficRequest

_BUCKETS = 1_000_000


def bucket(request: TrafficRequest, *, salt: str = "") -> int:
    """A number below a million, the same for all requests of a conversation (or for this one, where it has none)."""
    key = f"{salt}\x00{request.session or request.id}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") % _BUCKETS


def sampled(request: TrafficRequest, ratio: float, *, salt: str = "") -> bool:
    """Whether `ratio` of the traffic holds this request. A larger ratio holds all that a smaller one does."""
    return bucket(request, salt=salt) < round(ratio * _BUCKETS)


def shard_of(request: TrafficRequest, shards: int, *, salt: str = "") -> int:
    """Which of `shards` (from 0) handles it: conversations stay whole, and sampling does not skew the shards."""
    return bucket(request, salt=f"shard\x00{salt}") % shards
