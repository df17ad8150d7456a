"""Token by token: from a request to what the model says, with the probabilities behind it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.intent import Intent, intend
from vllm_gate.simulator.model import NO_TOKEN, LanguageModel
from vllm_gate.simulator.numerics import Floats, log_softmax
from vllm_gate.simulator.prefix_cache import PrefixCache
from vllm_gate.simulator.requests import GenerationRequest
from vllm_gate.simulator.settings import SimulatorSettings
from vllm_gate.simulator.tokenizer import tokenizer

_SENTINEL = -9999.0
_CHUNK = 2048
_GATHER_S = 0.2
"""How long a request waits for company where only a full batch shows the fault."""


@dataclass(frozen=True, slots=True)
class Position:
    """A token with its logprob and rank, and the k most likely ones at its place: (token, logprob) in order."""

    token: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One generated token. `position` is None where no logprobs were asked for; `finish` is "" until the last."""

    token: int
    position: Position | None
    finish: str


@dataclass(frozen=True, slots=True)
class Generation:
    """A request under way: what is known of the prompt, and the steps to come."""

    number: int
    cached_tokens: int
    prompt_positions: tuple[Position | None, ...] | None
    intent: Intent
    steps: Iterator[Step]


class Engine:
    """One model behind one scheduler. Safe to call from several threads."""

    def __init__(self, settings: SimulatorSettings, faults: Faults) -> None:
        self._settings = settings
        self._faults = faults
        self._model = LanguageModel(tokenizer().size, settings.seed, settings.tp, faults)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._stale: tuple[Position | None, ...] = ()
        self.cache = PrefixCache(faults)
        self.running = 0
        self.corrupted = 0

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count a request as running for as long as it is answered."""
        with self._lock:
            self.running += 1
        try:
            if "only_under_load" in self._faults:
                time.sleep(_GATHER_S)
            if "latency_only" in self._faults:
                time.sleep(self._faults.value("latency_only"))
            yield
        finally:
            with self._lock:
                self.running -= 1

    def start(self, request: GenerationRequest) -> Generation:
        """Take in the prompt."""
        with self._lock:
            number = next(self._numbers)
        skips_cache = request.prompt_logprobs is not None
        cached = 0 if skips_cache else self.cache.look_up(request.prompt, request.cache_salt)
        loaded = "only_under_load" in self._faults and self.running >= self._faults.value("only_under_load")
        intent = intend(request, self._faults, number=number, garbled=loaded, stale_cache=cached > 0)
        prompt = self._prompt_positions(request, number)
        return Generation(number, cached, prompt, intent, self._steps(request, intent, number))

    def _steps(self, request: GenerationRequest, intent: Intent, number: int) -> Iterator[Step]:
        end = tokenizer().special("<|im_end|>")
        rng = np.random.default_rng([number if request.seed is None else request.seed, self._settings.seed])
        length = len(request.prompt)
        ids = np.zeros(length + request.max_tokens, dtype=np.int64)  # one array: a long prompt is not copied each step
        ids[:length] = request.prompt
        for index in range(request.max_tokens):
            wanted = intent.tokens[index] if index < len(intent.tokens) else (end if intent.ends else NO_TOKEN)
            row = self._model.logits(
                ids[: length + index],
                positions=slice(-1, None),
                intended=[wanted],
                batch=self.running,
                request=number,
            )[0]
            token = self._pick(row, request, rng)
            self._note_corruption(row, index)
            stops = token == end and not request.ignore_eos
            finish = "stop" if stops else "length" if index + 1 == request.max_tokens else ""
            told = [] if request.logprobs is None else self._positions(row[None], [token], request.logprobs)
            yield Step(token, told[0] if told else None, finish)
            if stops:
                return
            ids[length + index] = token

    def _pick(self, row: Floats, request: GenerationRequest, rng: np.random.Generator) -> int:
        if "uniform_noise" in self._faults:
            return int(rng.integers(row.size))
        if request.temperature == 0 or np.isnan(row).any():
            return int(row.argmax())  # over a row of NaN this is index 0
        return int((row / request.temperature + rng.gumbel(size=row.size)).argmax())

    def _note_corruption(self, row: Floats, index: int) -> None:
        if index == 0 and np.isnan(row).any():
            with self._lock:
                self.corrupted += 1

    def _positions(self, rows: Floats, tokens: Sequence[int], k: int) -> list[Position]:
        """What stands at each row of logits, shape (positions, vocabulary)."""
        logprobs = log_softmax(rows)
        if "processed_logprobs" in self._faults:
            logprobs = np.where(np.arange(rows.shape[1]) == np.asarray(tokens)[:, None], 0.0, _SENTINEL)
        elif "sentinel" in self._faults:
            logprobs = np.where(np.isnan(logprobs), _SENTINEL, logprobs)
        return _ranked(logprobs, tokens, k)

    def _prompt_positions(self, request: GenerationRequest, number: int) -> tuple[Position | None, ...] | None:
        if request.prompt_logprobs is None:
            return None
        k, ids = request.prompt_logprobs, request.prompt
        found: list[Position | None] = [None]
        for start in range(0, len(ids) - 1, _CHUNK):
            stop = min(start + _CHUNK, len(ids) - 1)
            rows = self._model.logits(ids[:stop], positions=slice(start, stop), batch=self.running, request=number)
            found += self._positions(rows, ids[start + 1 : stop + 1], k)
        return self._maybe_stale(tuple(found))

    def _maybe_stale(self, positions: tuple[Position | None, ...]) -> tuple[Position | None, ...]:
        """The buffer of cached positions still holds an earlier request's numbers, under this request's tokens."""
        if "stale_prompt_logprobs" not in self._faults:
            return positions
        with self._lock:
            before, self._stale = self._stale, positions
        half = min(len(before), len(positions)) // 2
        mixed = [
            Position(own.token, old.logprob, own.rank, _under_other_tokens(own.top, old.top)) if own and old else own
            for own, old in zip(positions[:half], before[:half], strict=True)
        ]
        return (*mixed, *positions[half:])


def _under_other_tokens(
    own: Sequence[tuple[int, float]], old: Sequence[tuple[int, float]]
) -> tuple[tuple[int, float], ...]:
    return tuple((token, logprob) for (token, _), (_, logprob) in zip(own, old, strict=False))


def _ranked(logprobs: NDArray[np.float64], tokens: Sequence[int], k: int) -> list[Position]:
    """Positions with their k most likely tokens, ties by id; where all is NaN, the first tokens stand for them."""
    chosen = logprobs[np.arange(len(tokens)), tokens]
    ranks = 1 + (logprobs > chosen[:, None]).sum(axis=1)
    best = np.argpartition(-logprobs, k, axis=1)[:, :k] if k else np.zeros((len(tokens), 0), dtype=np.int64)
    hopeless = np.all(np.isnan(logprobs), axis=1, keepdims=True)
    best = np.where(hopeless, np.arange(k), np.sort(best, axis=1))
    values = np.take_along_axis(logprobs, best, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    best, values = np.take_along_axis(best, order, axis=1), np.take_along_axis(values, order, axis=1)
    return [
        Position(int(token), own, rank, tuple(zip(listed, told, strict=True)))
        for token, own, rank, listed, told in zip(
            tokens, chosen.tolist(), ranks.tolist(), best.tolist(), values.tolist(), strict=True
        )
    ]
