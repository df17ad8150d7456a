"""Hostile text made safe for Markdown as GitHub renders it, and texts kept within a number of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vllm_gate.core.printable import printable

_MARKUP = re.compile(r"([\\`*_{}\[\]#|~$!])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
"""What Markdown's backslash does not disarm everywhere."""
_BLOCK = re.compile(r"^([-+]|\d+(?=[.)]))")
"""What would begin a list or a rule at the start of a line."""
_REFERENCE = re.compile(r"(@|#|\bGH-)(?=\w)", re.IGNORECASE)
"""A mention, an address or an issue's number. GitHub looks for them in the finished page, where no escape is left: only
a space of no width keeps them apart."""


def markdown(text: str) -> str:
    """`text` as words on one line of Markdown: no markup, link, mention, HTML or new line comes of it."""
    escaped = _MARKUP.sub(r"\\\1", printable(text, one_line=True).strip())
    for character, entity in _ENTITIES.items():
        escaped = escaped.replace(character, entity)
    escaped = _BLOCK.sub(_disarmed, _REFERENCE.sub(r"\1&#8203;", escaped))
    # GitHub turns an address into a link even without markup.
    return escaped.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")


def _disarmed(start: re.Match[str]) -> str:
    """`-` as `\\-`, `1` before a dot as an entity: a backslash does nothing to a digit."""
    found = start[1]
    return f"\\{found}" if found in "-+" else f"&#{ord(found[0])};{found[1:]}"


def table_cell(text: str) -> str:
    """`text` inside a table: as `markdown`, with no way out of the cell."""
    return markdown(text).strip() or " "


def code_block(text: str) -> str:
    """`text` in a fence that it can't close."""
    shown = printable(text)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def cut_bytes(text: str, limit: int, note: str = "…") -> str:
    """At most `limit` bytes of UTF-8, with `note` at the end when something was cut. No character is halved."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    room = max(limit - len(note.encode()), 0)
    return raw[:room].decode(errors="ignore") + note


def whole_blocks(blocks: Iterable[str], limit: int, note: str) -> str:
    """As many of the blocks, a blank line between them, as fit into `limit` bytes; `note` says that some did not.

    Whole ones only: half a code fence would swallow what follows.
    """
    kept: list[str] = []
    used = len(note.encode()) + 3
    for block in blocks:
        used += len(block.encode()) + 2
        if used > limit:
            kept += [note] if note else []
            break
        kept.append(block)
    return "\n\n".join(kept) + "\n"
