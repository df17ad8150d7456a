"""The same requests are picked by everyone, conversations whole, in the share that was asked for."""

from vllm_gate.traffic.request import CHAT, TrafficRequest
from vllm_gate.traffic.sampling import bucket, sampled, shard_of

KNOWN = [275696, 864894, 47586]


def request(number: int, session: str = "") -> TrafficRequest:
    return TrafficRequest(id=f"r-{number}", endpoint=CHAT, body={}, session=session)


def test_the_hash_is_what_it_was() -> None:
    """Known values: a new hash would pick other requests in the middle of a canary. BLAKE2b of NUL and the id."""
    assert [bucket(request(number)) for number in range(3)] == KNOWN


def test_the_share_is_what_was_asked_for() -> None:
    picked = sum(sampled(request(number), 0.05) for number in range(100_000))
    assert abs(picked - 5_000) < 4 * (100_000 * 0.05 * 0.95) ** 0.5


def test_a_larger_share_holds_the_smaller_one() -> None:
    assert all(sampled(request(n), 0.2) for n in range(10_000) if sampled(request(n), 0.05))


def test_a_conversation_is_picked_whole_or_not_at_all() -> None:
    for conversation in range(200):
        kept = {sampled(request(n, f"c-{conversation}"), 0.5) for n in range(5)}
        assert len(kept) == 1


def test_all_and_none() -> None:
    assert all(sampled(request(n), 1.0) for n in range(1_000))
    assert not any(sampled(request(n), 0.0) for n in range(1_000))


def test_shards_share_the_sampled_evenly() -> None:
    kept = [request(n) for n in range(50_000) if sampled(request(n), 0.1)]
    sizes = [sum(shard_of(one, 4) == shard for one in kept) for shard in range(4)]
    assert sum(sizes) == len(kept)
    assert max(sizes) - min(sizes) < 5 * (len(kept) / 4) ** 0.5
