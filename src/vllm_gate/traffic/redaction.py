"""Users' texts on their way into what is kept: as a mere shape, or with what identifies somebody blacked out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

BLACK = "█"
_SHOWN = 400
_IDENTIFYING = (
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # mail addresses
    r"\b(?:sk|pk|ghp|gho|xox[abp]|AKIA|eyJ)[\w-]{8,}[\w.-]*",  # keys and tokens by their usual beginnings
    r"(?i)\bbearer\s+\S+",
    r"(?:\+?\d[\s().-]?){7,}",  # telephone, card and account numbers
    r"\b\d{1,3}(?:\.\d{1,3}){3}\b",  # IPv4
)


def shape(text: str) -> str:
    """The look of a text without its content: x for a Latin letter, ※ for another one, 9 for a digit.

    Punctuation and blanks stay, so that `!!!!!!!!`, broken JSON and a foreign script can still be seen.
    """
    cut = text[:_SHOWN]
    return "".join(map(_outline, cut)) + ("…" if len(text) > len(cut) else "")


def redacted(text: str, patterns: Sequence[str] = ()) -> str:
    """The beginning of a text with addresses, long numbers, keys, and the user's own `patterns` blacked out."""
    for pattern in (*patterns, *_IDENTIFYING):
        text = re.sub(pattern, BLACK * 3, text[: 20 * _SHOWN])
    return text[:_SHOWN] + ("…" if len(text) > _SHOWN else "")


def _outline(letter: str) -> str:
    if letter.isascii():
        return "x" if letter.isalpha() else "9" if letter.isdigit() else letter
    if letter.isalpha():
        return "x" if unicodedata.name(letter, "").startswith("LATIN") else "※"
    return "9" if letter.isdigit() else letter
