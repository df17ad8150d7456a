"""Whole blocks of 16 tokens are found again, under the same salt."""

from __future__ import annotations

import pytest

from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.prefix_cache import PrefixCache


@pytest.mark.parametrize(("length", "hit"), [(15, 0), (16, 0), (17, 16), (32, 16), (33, 32), (40, 32)])
def test_the_second_time_all_whole_blocks_before_the_last_token_hit(length: int, hit: int) -> None:
    cache, prompt = PrefixCache(Faults(())), list(range(length))
    assert [cache.look_up(prompt, "a"), cache.look_up(prompt, "a")] == [0, hit]
    assert (cache.queries, cache.hits) == (2 * length, hit)


def test_only_the_shared_beginning_hits() -> None:
    cache = PrefixCache(Faults(()))
    cache.look_up([1] * 40, "")
    assert cache.look_up([*[1] * 20, *[2] * 20], "") == 16


@pytest.mark.parametrize(("faults", "hit"), [((), 0), (("salt_ignored",), 32)])
def test_another_salt_misses_unless_it_is_ignored(faults: tuple[str, ...], hit: int) -> None:
    cache = PrefixCache(Faults(faults))
    cache.look_up([1] * 40, "a")
    assert cache.look_up([1] * 40, "b") == hit


def test_a_cache_that_never_hits_counts_queries_alone() -> None:
    cache = PrefixCache(Faults(("cache_never_hits",)))
    assert [cache.look_up([1] * 40, ""), cache.look_up([1] * 40, "")] == [0, 0]
    assert (cache.queries, cache.hits) == (80, 0)
