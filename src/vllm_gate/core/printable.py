"""Model output, log lines and file content are hostile: this is how they become safe to show in a terminal."""

from __future__ import annotations

import unicodedata

_KEPT = {"\n", "\t"}
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that steer a terminal or hide from the reader: controls, format marks, surrogates."""


def printable(text: str, *, one_line: bool = False) -> str:
    """`text` with every control and invisible character written as an escape, so that it can steer nothing.

    Newlines and tabs stay, unless `one_line` asks for them to be escaped too.
    """
    kept = set() if one_line else _KEPT
    if (text if one_line else text.replace("\n", "").replace("\t", "")).isprintable():
        return text
    return "".join(
        character if character in kept or unicodedata.category(character) not in _INVISIBLE else _escape(character)
        for character in text
    )


def _escape(character: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character) or (
        f"\\x{ord(character):02x}" if ord(character) < 0x100 else f"\\u{{{ord(character):x}}}"
    )


def excerpt(text: str, limit: int = 120) -> str:
    """One quoted, printable line of `text` for a message: at most `limit` characters of it."""
    shown = printable(text[:limit], one_line=True)
    return f'"{shown}"' + (f" (+{len(text) - limit} characters)" if len(text) > limit else "")
