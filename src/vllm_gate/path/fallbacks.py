"""Lines in which a server gives up the path it meant to take for another one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vllm_gate.path.lines import Message

_MOST = 500

_VOCABULARY = re.compile(
    r"fall(?:s|ing)?[ -]?back|fallback|fell back|revert(?:ing|ed) to|emulation backend|unoptimized|tried to force"
    r"|defaulting to FA|precluded higher-priority|instead of the requested|using the V1 model runner instead"
    r"|Auto-disabled|has no effect|No implementation in priority list|using native implementation"
    r"|fusion (?:pass )?(?:is |will be )?disabled|fusion not enabled|Failed to lower|Failed to initialize FlashInfer"
    r"|Failed to initialize Flashinfer",
    re.IGNORECASE,
)
"""Words with which vLLM says so, 0.11 to 0.32."""

HARMLESS: tuple[tuple[str, str], ...] = (
    (r"AllReduce fusion pass is disabled for tp_size <= 1", "there is nothing to reduce on one GPU"),
    (r"chat template fallback", "a chat template is no kernel"),
    (r"This is not an error and we will fall back to triton", "a choice for single shapes, made by DeepGEMM's rules"),
    (r"fallback to triton for this specific shape", "a choice for single shapes, made by DeepGEMM's rules"),
    (r"does not support per-request generators\. Falling back", "caused by requests that set a seed"),
    (r"torch\.nn\.functional\.linear \(fallback\)", "the name of the ordinary path on that platform"),
)
"""Messages with such a word that change no result, with the reason why."""

_HARMLESS = re.compile("|".join(pattern for pattern, _ in HARMLESS))
_VARIABLE = (
    (re.compile(r"Exception: .*|\(original error.*|Reason: .*", re.DOTALL), ""),
    (re.compile(r"(?:/[\w.@-]+){2,}"), "PATH"),
    (re.compile(r"\b(?:model\.)?layers\.\d+(?:\.\w+)*"), "LAYER"),
    (re.compile(r"0x[0-9a-f]+"), "ADDRESS"),
    (re.compile(r"(?<![\w.])\d+(?:\.\d+)*(?![\w])"), "N"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """One kind of fallback: `id` stays the same from start to start and between releases with the same wording."""

    id: str
    line: str
    line_number: int
    ranks: tuple[int, ...] = ()
    """The tensor-parallel ranks that said so; empty where no worker did."""


class FallbackReader:
    """Collects the distinct fallbacks of a log, the first line of each as its proof."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, int]] = {}
        self._ranks: dict[str, set[int]] = {}

    def read(self, number: int, message: Message) -> None:
        """Take in one message."""
        if not is_fallback(message.text):
            return
        identity = fallback_id(message.text)
        if identity not in self._first and len(self._first) < _MOST:
            self._first[identity] = (message.text.strip()[:500], number)
        if message.rank is not None and identity in self._first:
            self._ranks.setdefault(identity, set()).add(message.rank)

    def found(self) -> tuple[Fallback, ...]:
        """Every distinct fallback so far, in the order of the log."""
        return tuple(
            Fallback(id=identity, line=line, line_number=number, ranks=tuple(sorted(self._ranks.get(identity, ()))))
            for identity, (line, number) in self._first.items()
        )


def is_fallback(text: str) -> bool:
    """Whether a message says that a path was given up, and not one that is known to change nothing."""
    return bool(_VOCABULARY.search(text)) and not _HARMLESS.search(text)


def fallback_id(text: str) -> str:
    """The message without what differs from start to start: numbers, paths, layer names, exception texts."""
    for pattern, replacement in _VARIABLE:
        text = pattern.sub(replacement, text)
    return " ".join(text.split()).rstrip(" .")[:200]
