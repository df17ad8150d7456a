"""Automatic prefix caching: whole blocks of prompt tokens, found again by their content and the salt."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from vllm_gate.simulator.faults import Faults

BLOCK = 16
_MOST_BLOCKS = 100_000


class PrefixCache:
    """Which prefixes were seen. Thread-safe. Counts tokens, as vLLM's counters do."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._lock = threading.Lock()
        self.queries = 0
        self.hits = 0

    def look_up(self, prompt: Sequence[int], salt: str) -> int:
        """How many of the prompt's tokens are cached already; the whole blocks of the prompt are cached from now on.

        The last token is always computed, so a prompt of whole blocks never hits with all of them.
        """
        keys, state = [], hash("" if "salt_ignored" in self._faults else salt)
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            state = hash((state, tuple(prompt[start : start + BLOCK])))
            keys.append(state)
        with self._lock:
            self.queries += len(prompt)
            hit = 0
            for key in keys[: (len(prompt) - 1) // BLOCK]:
                if key not in self._seen:
                    break
                self._seen.move_to_end(key)
                hit += BLOCK
            self._seen.update(dict.fromkeys(keys))
            while len(self._seen) > _MOST_BLOCKS:
                self._seen.popitem(last=False)
            if "cache_never_hits" in self._faults:
                return 0
            self.hits += hit
            return hit
