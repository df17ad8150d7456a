"""The degeneration detector on ordinary texts and on loops: false alarms, recall, and speed.

    bench/run degeneration_study

Ordinary texts are cut out of what lies on this machine: code, headers, JSON, Markdown, licences, CSV, and Chinese,
Japanese and Korean. Loops are seeded: an ordinary beginning, then a unit until a length is reached. Beside the
detector, three usual rules: 4-gram repetition, the compression ratio of Whisper, and the rule on the tail of vLLM's
`repetition_detection`. Exits with 1 when the detector does not keep what the documentation says.
"""

from __future__ import annotations

import gettext
import random
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from scipy import stats

from vllm_gate.judge.degeneration import degenerations

SEED = 20_261_204
WORDS = 200
MOST_EACH = 1_500
LEAST_TEXTS, LEAST_RECALL, LEAST_SPEED = 2_000, 0.94, 5_000
ROOTS = [Path(sys.base_prefix, "lib"), Path("/usr/share"), Path("/usr/include"), Path("/usr/lib/python3")]
KINDS = {
    "code": (".py", ".c", ".js", ".sh", ".h"),
    "JSON": (".json",),
    "Markdown": (".md", ".rst"),
    "licences and documents": (".txt", "copyright", "LICENSE", "METADATA", ".html"),
    "CSV": (".csv", ".tsv", ".tab"),
    "Chinese, Japanese, Korean": ("/zh_CN/.mo", "/zh_TW/.mo", "/ja/.mo", "/ko/.mo"),
}


def ordinary(rng: random.Random) -> dict[str, list[str]]:
    """Texts by kind, each of about `WORDS` words."""
    files: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for root in ROOTS:
        for path in root.rglob("*"):
            for kind, ends in KINDS.items():
                if any(
                    path.name.endswith(end.rpartition("/")[2]) and end.rpartition("/")[0] in str(path) for end in ends
                ):
                    files[kind].append(path)
                    break
    texts = {}
    for kind, paths in files.items():
        paths.sort()
        rng.shuffle(paths)
        texts[kind] = list(islice((chunk for path in paths for chunk in islice(_chunks(path), 5)), MOST_EACH))
    return texts


def _chunks(path: Path) -> Iterator[str]:
    try:
        text = _messages(path) if path.suffix == ".mo" else path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    size = 2 if path.suffix == ".mo" else 1  # a Chinese sentence is one "word" between blanks
    words = re.findall(r"\S+\s*", text[:200_000])
    for start in range(0, len(words) - WORDS // size, WORDS // size):
        chunk = "".join(words[start : start + WORDS // size])
        if len(chunk) < 20 * WORDS:  # no minified line of a whole program
            yield chunk


def _messages(path: Path) -> str:
    """The translations of a catalogue, a line each, in mixed order: neighbours are variants of one sentence."""
    with path.open("rb") as file:
        catalogue = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    said = dict.fromkeys(text for text in catalogue.values() if isinstance(text, str) and len(text) > 3)
    return "\n".join(sorted(said, key=lambda text: zlib.crc32(text.encode())))


UNITS: dict[str, Callable[[random.Random, list[str]], Iterator[str]]] = {}


def unit(kind: str) -> Callable[[Callable[[random.Random, list[str]], Iterator[str]]], object]:
    """Registers how a kind of loop goes on for ever."""
    return lambda made: UNITS.setdefault(kind, made)


@unit("single token")
def _token(rng: random.Random, words: list[str]) -> Iterator[str]:
    word = rng.choice([word for word in words if word.isalpha()])
    while True:
        yield f" {word}"


@unit("phrase")
def _phrase(rng: random.Random, words: list[str]) -> Iterator[str]:
    chosen = rng.sample(words, rng.randint(3, 8))
    while True:
        yield " " + " ".join(chosen)


@unit("sentence")
def _sentence(rng: random.Random, words: list[str]) -> Iterator[str]:
    chosen = " ".join(rng.sample(words, rng.randint(9, 25))) + ". "
    while True:
        yield chosen


@unit("CJK")
def _cjk(rng: random.Random, _: list[str]) -> Iterator[str]:
    chosen = "".join(chr(rng.randint(0x4E00, 0x9000)) for _ in range(rng.randint(2, 20))) + rng.choice(("。", "，", ""))
    while True:
        yield chosen


@unit("counter")
def _counter(rng: random.Random, words: list[str]) -> Iterator[str]:
    chosen, number = " ".join(rng.sample([word for word in words if word.isalpha()], rng.randint(9, 20))), 0
    while True:
        number += 1
        yield f"{number}. {chosen}.\n"


def loops(kind: str, rng: random.Random, texts: list[str], count: int) -> Iterator[str]:
    """Texts that begin as others do and end in a loop of 120 to 600 words."""
    while count:
        words = rng.choice(texts).split()
        vocabulary = sorted({word for word in words if len(word) < 20})
        if sum(map(str.isalpha, vocabulary)) < 40:
            continue
        count -= 1
        parts, length = [" ".join(words[: rng.randint(0, 100)]), " "], 0
        wanted = rng.randint(120, 600)
        for piece in UNITS[kind](rng, vocabulary):
            parts.append(piece)
            length += len(piece) if kind == "CJK" else len(piece.split())
            if length >= wanted:
                break
        yield "".join(parts)


def rep_4(text: str) -> bool:
    """More than half of all 4-grams of words are repetitions."""
    words = text.split()
    grams = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    return bool(grams) and 1 - len(set(grams)) / len(grams) > 0.5


def whisper(text: str) -> bool:
    """Compressed by more than 2.4."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) > 2.4


def tail(text: str) -> bool:
    """The tail repeats three times or more, at a period of 1 to 20 words."""
    words = text.split()
    return any(
        words[-period:] == words[-2 * period : -period] == words[-3 * period : -2 * period]
        for period in range(1, min(20, len(words) // 3) + 1)
    )


def detector(text: str) -> bool:
    """As gate 5 counts it: hints are left out, and an answer that loops runs until max_tokens."""
    return any(one.certain for one in degenerations(text, finish_reason="length"))


RULES = {"the detector": detector, "4-gram repetition > 0.5": rep_4, "compression > 2.4": whisper, "tail rule": tail}


def main() -> int:
    """Prints the tables; 1 when a promise is broken."""
    rng = random.Random(SEED)
    texts = ordinary(rng)
    every = [text for kind in texts.values() for text in kind]
    print("\nOrdinary texts that are flagged:\n")
    print("| texts | number | " + " | ".join(RULES) + " |\n|---|---|" + "---|" * len(RULES))
    for kind, chosen in texts.items():
        shares = (f"{sum(map(rule, chosen)) / max(len(chosen), 1):.1%}" for rule in RULES.values())
        print(f"| {kind} | {len(chosen):,} | " + " | ".join(shares) + " |")
    flagged = [text for text in every if detector(text)]
    upper = stats.beta.ppf(0.95, len(flagged) + 1, len(every) - len(flagged))
    print(f"\nThe detector: {len(flagged)} of {len(every):,}; the rate is below {upper:.2%} (exact, 95 %).")
    for text in flagged[:10]:
        print("  flagged:", [one.sentence for one in degenerations(text, finish_reason="length")], repr(text[:100]))
    print("\nLoops that are found, 500 of each kind:\n")
    print("| loop | " + " | ".join(RULES) + " |\n|---|" + "---|" * len(RULES))
    recalls = []
    for kind in UNITS:
        looping = list(loops(kind, rng, texts["licences and documents"], 500))
        found = {name: sum(map(rule, looping)) / len(looping) for name, rule in RULES.items()}
        recalls.append(found["the detector"])
        print(f"| {kind} | " + " | ".join(f"{share:.1%}" for share in found.values()) + " |")
    speed = _speed(rng.sample(every, min(len(every), 4_000)))
    print(f"\n{speed:,.0f} texts of about {WORDS} words a second on one core.")
    kept = len(every) >= LEAST_TEXTS and not flagged and min(recalls) >= LEAST_RECALL and speed >= LEAST_SPEED
    return 0 if kept else 1


def _speed(texts: list[str]) -> float:
    """Texts a second, the best of five: the others were disturbed."""
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        for text in texts:
            degenerations(text)
        best = max(best, len(texts) / (time.perf_counter() - start))
    return best


if __name__ == "__main__":
    sys.exit(main())
