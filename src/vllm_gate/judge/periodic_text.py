"""A quick look that tells most texts free of loops, without reading them word by word.

A run of equal words is a run of equal characters too, once blanks are left out: where the words of a text repeat four
times or more, its characters do. So the characters are searched for such a run, at a few places with the machine's own
search, and only a text that has one is worth the closer look. Nothing that the closer look would find is missed.
"""

from __future__ import annotations

import re

_PROBE, _GRID = 12, 34
"""Characters compared, and the distance of the places. A loop inside a text has at least 46 characters that equal those
a period later: a probe falls among them."""
_EQUAL_INSIDE, _EQUAL_AT_END = 46, 36
_ALIKE = 24
"""Times that a word of one character stands in a row at least to be a loop."""
_LONGEST = 6_000
"""Characters beyond which the closer look is as fast."""
_DIGITS = re.compile(r"\d+")


def may_loop(dense: str) -> bool:
    """Whether a loop may stand anywhere in a text without blanks.

    Namely one that repeats its unit at least four times over 49 words at the end of the text, eight times over 100
    words inside it, or one or two words at least 24 times.
    """
    if len(dense) < _ALIKE:
        return False
    if len(dense) > _LONGEST or any(
        letter * _ALIKE in dense for letter in set(dense[:: _ALIKE // 2]) if letter.isalpha()
    ):
        return True
    if _ends_in_run(dense, 4):
        return True
    furthest = len(dense) // 8 + _PROBE
    for place in range(0, len(dense) - _PROBE, _GRID):  # in line, and `find` without a name: half of all time goes here
        found = dense.find(dense[place : place + _PROBE], place + 1, place + furthest)
        if found >= 0 and _repeats_at(dense, place, found):
            return True
    return False


def may_count(dense: str) -> bool:
    """Whether a text without blanks may end in a run that repeats its unit eight times or more but for its numbers."""
    return _ends_in_run(_without_digits(dense), 8)


def _ends_in_run(text: str, times: int) -> bool:
    """Whether the text may end in a run that repeats its unit so often."""
    place = len(text) - _PROBE
    if place < _EQUAL_AT_END:
        return place >= 0 and len(set(text[-_PROBE:])) < _PROBE  # short: not worth more than that
    probe, first = text[place:], place
    while (place := text.rfind(probe, 0, place + _PROBE - 1)) >= 0:
        period = first - place
        if period * times > len(text):
            return False
        if _PROBE + _equal_before(text, place, period) >= max(_EQUAL_AT_END, (times - 1) * period):
            return True
    return False


def without_blanks(text: str) -> str:
    """The text without blanks; line ends stay, for they count as words."""
    return "\n".join(["".join(line.split()) for line in text.split("\n")])


def _without_digits(text: str) -> str:
    if not text.isascii():
        return _DIGITS.sub("", text)
    for digit in "0123456789":
        text = text.replace(digit, "")
    return text


def _repeats_at(text: str, place: int, found: int) -> bool:
    """Whether a run whose unit stands there eight times holds the characters at `place`, which stand at `found` too."""
    probe, after = text[place : place + _PROBE], place + _PROBE
    furthest = after + len(text) // 8
    while found >= 0:
        period = found - place
        needed = max(_EQUAL_INSIDE, 7 * period)
        # Most of it lies on one side: a look at that much tells chance hits apart at once.
        side = (needed - _PROBE) // 2
        before = max(place - side, 0)
        if (
            text[after : after + side] == text[after + period : after + period + side]
            or text[before:place] == text[before + period : found]
        ) and _is_loop(text, place, period, needed):
            return True
        found = text.find(probe, found + 1, furthest)
    return False


def _is_loop(text: str, place: int, period: int, needed: int) -> bool:
    """Whether enough characters around `place` equal those a period later, with a letter among them."""
    behind = _equal_after(text, place + _PROBE, period)
    enough = _equal_before(text, place, period) + _PROBE + behind >= needed
    return enough and any(map(str.isalpha, text[place : place + period]))


def _equal_after(text: str, place: int, period: int) -> int:
    """How many characters from `place` on equal those a period later."""
    here, there = text[place : len(text) - period], text[place + period :]
    if here == there:
        return len(here)
    low, high = 0, len(here)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if here[:middle] == there[:middle] else (low, middle)
    return low


def _equal_before(text: str, place: int, period: int) -> int:
    """How many characters before `place` equal those a period later."""
    here, there = text[:place], text[period : place + period]
    if here == there:
        return len(here)
    low, high = 0, len(here)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if here[-middle:] == there[-middle:] else (low, middle)
    return low
