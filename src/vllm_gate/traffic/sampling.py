"""Which requests are shadowed: a hash decides, so that every run and every shard picks the same ones."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from vllm_gate.traffic.request import TrafficRequest

_BUCKETS = 1_000_000
_REMEMBERED = 50_000
"""Conversations whose requests are counted: of the latest ones, so that memory stays what it is."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A request that is shadowed. `number` counts the sample from 0: the same in every run and in every shard."""

    number: int
    request: TrafficRequest

    @property
    def key(self) -> str:
        """What the request is known by in a journal: nothing of it can be read from that."""
        return hashlib.blake2b(self.request.id.encode(errors="surrogatepass"), digest_size=8).hexdigest()


class Sampler:
    """Draws the sample of one stream of traffic, request by request.

    At most `per_conversation` of a conversation's requests are taken: its answers depend on each other, and evidence
    that counts them as independent would claim too much.
    """

    def __init__(
        self, ratio: float, *, salt: str = "", per_conversation: int = 1, shard: int = 0, shards: int = 1
    ) -> None:
        self._ratio = ratio
        self._salt = salt
        self._per_conversation = per_conversation
        self._shard = shard
        self._shards = shards
        self._taken: OrderedDict[int, int] = OrderedDict()
        self.seen = 0
        """Requests of the traffic."""
        self.size = 0
        """Requests of the whole sample, whichever shard they belong to."""
        self.repeated = 0
        """Requests that were left out because their conversation is in the sample already."""

    def take(self, request: TrafficRequest) -> Sampled | None:
        """The request with its number, if it is in the sample and in this shard."""
        self.seen += 1
        if not sampled(request, self._ratio, salt=self._salt):
            return None
        if request.session and not self._first_ones(request):
            self.repeated += 1
            return None
        self.size += 1
        if shard_of(request, self._shards, salt=self._salt) != self._shard:
            return None
        return Sampled(self.size - 1, request)

    def _first_ones(self, request: TrafficRequest) -> bool:
        conversation = _hash(self._salt, request)
        times = self._taken.pop(conversation, 0) + 1
        self._taken[conversation] = times
        if len(self._taken) > _REMEMBERED:
            self._taken.popitem(last=False)
        return times <= self._per_conversation


def bucket(request: TrafficRequest, *, salt: str = "") -> int:
    """A number below a million, the same for all requests of a conversation (or for this one, where it has none)."""
    return _hash(salt, request) % _BUCKETS


def sampled(request: TrafficRequest, ratio: float, *, salt: str = "") -> bool:
    """Whether `ratio` of the traffic holds this request. A larger ratio holds all that a smaller one does."""
    return bucket(request, salt=salt) < round(ratio * _BUCKETS)


def shard_of(request: TrafficRequest, shards: int, *, salt: str = "") -> int:
    """Which of `shards` (from 0) handles it: conversations stay whole, and sampling does not skew the shards."""
    return bucket(request, salt=f"shard\x00{salt}") % shards


def _hash(salt: str, request: TrafficRequest) -> int:
    key = f"{salt}\x00{request.session or request.id}"
    return int.from_bytes(hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
