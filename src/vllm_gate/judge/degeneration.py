"""Whether a text has degenerated, judged on the text alone.

A loop is a periodic run: a stretch in which every token equals the one `period` tokens earlier. Global measures
(distinct n-grams, compression) fire on healthy JSON and code; a long exact run does not. Even so, healthy models
loop on some prompts: a gate that compares two servers should count only what the other one does not do as well.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllm_gate.judge.periodic_text import may_count, may_loop, without_blanks

LONGEST_PERIOD = 256
_LONGEST_WORD = 64  # a longer "word" is read letter by letter, or "hahaha…" without spaces would be one token
_ALONE = 8  # times that one character makes up a whole answer: 16 "!" are the argmax of NaN logits
_LIMIT = 200_000  # characters read; a loop shows long before

_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # kana, Han
)
_ODD = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # replacement and control characters
_DIGITS = re.compile(r"\d+")
_TOKEN = re.compile(rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+|\n|[^\w\s]")


@dataclass(frozen=True, slots=True)
class PeriodicRun:
    """`covered` tokens from `start` on that repeat with the given period, both in tokens."""

    period: int
    start: int
    covered: int

    @property
    def repeats(self) -> float:
        """How often the unit stands there, the first time included."""
        return self.covered / self.period

    @property
    def end(self) -> int:
        """Index after the last token of the run."""
        return self.start + self.covered


@dataclass(frozen=True, slots=True)
class Degeneration:
    """One way in which a text is broken. `certain` is False where healthy text does it too: count it as a hint."""

    kind: str
    sentence: str
    certain: bool = True


def periodic_runs(
    tokens: Sequence[int] | NDArray[np.int64], period: int, least_covered: int
) -> tuple[PeriodicRun, ...]:
    """Every maximal run of one period that covers at least `least_covered` tokens, in order."""
    ids = np.asarray(tokens, dtype=np.int64)
    if ids.size <= period:
        return ()
    repeats = np.concatenate(([False], ids[period:] == ids[:-period], [False]))
    edges = np.flatnonzero(repeats[1:] != repeats[:-1])
    starts, covered = edges[::2], edges[1::2] - edges[::2] + period
    return tuple(PeriodicRun(period, int(starts[i]), int(covered[i])) for i in np.flatnonzero(covered >= least_covered))


def degenerations(
    text: str, *, finish_reason: str = "", stop_reason: str = "", text_expected: bool = True
) -> tuple[Degeneration, ...]:
    """Every way in which a text is degenerate; empty for a healthy one.

    `text_expected` is False where an empty text is healthy (a tool call stands in its place).
    """
    whole = _without_cut_word(text[:_LIMIT]) if finish_reason == "length" else text[:_LIMIT]
    return tuple(_degenerations(whole, finish_reason, stop_reason, text_expected))


def scripts(text: str) -> Counter[str]:
    """How many letters of each writing system a text holds, by the first word of their Unicode names.

    Kana, Han and Hangul count as one system, "CJK": Japanese and Korean texts mix them.
    """
    counts: Counter[str] = Counter()
    for letter, times in Counter(text).items():
        if letter.isalpha():
            name = unicodedata.name(letter, "UNKNOWN").split()[0]
            counts["CJK" if name in ("HIRAGANA", "KATAKANA", "HANGUL") else name] += times
    return counts


def foreign_script(text: str, *references: str) -> tuple[str, float] | None:
    """The most frequent writing system that no reference uses, and its share of the letters; None when all are used."""
    counts = scripts(text)
    known = scripts("".join(references))
    strangers = Counter({script: n for script, n in counts.items() if script not in known})
    if not strangers:
        return None
    script, letters = strangers.most_common(1)[0]
    return script, letters / counts.total()


def undecodable_share(text: str) -> float:
    """The share of characters that are replacement or control characters (tabs and line ends are neither)."""
    return len(_ODD.findall(text)) / max(len(text), 1)


def _degenerations(text: str, finish_reason: str, stop_reason: str, text_expected: bool) -> Iterator[Degeneration]:
    if stop_reason == "repetition_detected":
        yield Degeneration("stopped_repetition", "the server itself stopped the answer because it repeated")
    if not text.strip():
        if text_expected:
            yield Degeneration("empty_text", "the text is empty")
        return
    if (share := undecodable_share(text)) > 0.01:
        yield Degeneration("undecodable", f"{share:.0%} of the characters are replacement or control characters")
    if said := _one_character(text):
        yield Degeneration("one_character", said)
    dense = without_blanks(text)
    if may_loop(dense) and (loop := _loop(words := _words(text))):
        yield _named("loop", loop, words, certain=True)
    elif may_count(dense) and (counter := _counter_loop(words := _words(text))):
        yield _named("counter_loop", counter, words, certain=finish_reason == "length")


def _without_cut_word(text: str) -> str:
    """The text without its last word, which max_tokens may have cut in its middle."""
    head, _, last = text.rstrip().rpartition(" ")
    return head if head and len(last) <= _LONGEST_WORD else text


def _one_character(text: str) -> str:
    """How one character makes up an answer, or most of a long one; "" where none does."""
    whole = text.strip()
    if len(whole) >= _ALONE and whole == whole[0] * len(whole):
        return f"all {len(whole)} characters are {whole[0]!r}"
    if len(text) >= 200:
        letter, times = _most_frequent(text)
        if times > 0.6 * len(text) and not letter.isspace():
            return f"{times} of {len(text)} characters are {letter!r}"
    return ""


def _most_frequent(text: str) -> tuple[str, int]:
    if not text.isascii():
        return Counter(text).most_common(1)[0]
    counts = np.bincount(np.frombuffer(text.encode(), np.uint8))
    return chr(counts.argmax()), int(counts.max())


def _words(text: str) -> list[str]:
    """Words, single characters of scripts without spaces, punctuation marks and line ends."""
    found: list[str] = _TOKEN.findall(text)
    if len(max(found, key=len, default="")) <= _LONGEST_WORD:
        return found
    return [token for word in found for token in (word if len(word) > _LONGEST_WORD else (word,))]


def _possible_periods(ids: NDArray[np.int64], first: int, last: int, needed: Callable[[int], int]) -> Iterator[int]:
    """The periods at which enough words equal the one a period earlier; `needed` says how many a run takes."""
    for period in range(first, last + 1):
        if np.count_nonzero(ids[period:] == ids[:-period]) >= needed(period):
            yield period


def _numbered(words: Sequence[str]) -> NDArray[np.int64]:
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(word, len(seen)) for word in words], dtype=np.int64)


def _loop(words: Sequence[str]) -> PeriodicRun | None:
    """The first run, shortest period first, that is long enough to be a loop; inside a text more than at its end.

    A model that loops seldom finds out, whereas a healthy text goes on after a few lines of one kind. Units without a
    letter (rulers, zero vectors, table borders) are healthy unless they fill the end of the answer.
    """
    ids = _numbered(words)
    lettered = _with_letter(words)
    longest = min(LONGEST_PERIOD, len(words) // 2)
    for period in _possible_periods(ids, 1, longest, lambda period: _least(period) - period):
        least = _least(period)
        for run in periodic_runs(ids, period, least):
            ends = run.end == len(words)
            if lettered[run.start : run.start + period].any():
                if ends or period <= 2 or run.covered >= max(100, 8 * period):
                    return run
            elif ends and run.covered >= max(100, least):
                return run
    return None


def _with_letter(words: Sequence[str]) -> NDArray[np.bool_]:
    lettered = {word: any(map(str.isalpha, word)) for word in set(words)}
    return np.array([lettered[word] for word in words])


def _least(period: int) -> int:
    """Words that a loop of this period covers at least."""
    return 24 * period if period <= 2 else max(49, 4 * period)


def _counter_loop(words: Sequence[str]) -> PeriodicRun | None:
    """A loop that differs only in its numbers ("Step 41: …, Step 42: …") and fills the end of the answer."""
    mask = {word: _DIGITS.sub("0", word) for word in set(words) if not word.isalpha()}
    masked = [mask.get(word, word) for word in words]
    ids = _numbered(masked)
    is_word = _with_letter(words)
    for period in _possible_periods(ids, 8, min(LONGEST_PERIOD, len(words) // 8), lambda period: 7 * period):
        for run in periodic_runs(ids, period, 8 * period):
            unit = is_word[run.start : run.start + period]
            if run.end == len(words) and unit.sum() >= 8 and unit.mean() >= 0.6:
                return run
    return None


def _named(kind: str, run: PeriodicRun, words: Sequence[str], *, certain: bool) -> Degeneration:
    unit = " ".join(words[run.start : run.start + min(run.period, 12)])
    more = " …" if run.period > 12 else ""
    return Degeneration(kind, f"{unit!r}{more} stands {run.repeats:.0f} times in a row", certain)
