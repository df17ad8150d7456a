"""What a start-up log says about weights that were not loaded as they stand in the checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WeightProblem:
    """One line that tells of a weight problem; `line_number` counts from 1."""

    symptom: str
    meaning: str
    line: str
    line_number: int


_RULES = tuple(
    (re.compile(pattern), symptom, meaning)
    for pattern, symptom, meaning in (
        (r"\bload_format=dummy\b", "dummy_weights", "the weights are random: the server runs with load_format=dummy"),
        (
            r"[Ww]eights .{0,200}?\b(?:were|was) not initialized from",
            "uninitialized_weights",
            "some weights are not in the checkpoint and keep random values",
        ),
        (
            r"[Ww]eights of .{0,200}?\b(?:were|was) not used when initializing",
            "skipped_weights",
            "some weights of the checkpoint are used by no layer",
        ),
        (
            r"There is no module or parameter named",
            "skipped_weights",
            "a weight of the checkpoint belongs to no layer of the model",
        ),
        (
            r"Found .{1,80}? in the checkpoint .{0,400}? is not loaded",
            "skipped_weights",
            "a scale of the checkpoint was not loaded, so quantised values are read with the wrong scale",
        ),
    )
)


_NEW_START = re.compile(r"\bnon-default args: ")
_NEEDLES = ("eights", "load_format=dummy", "There is no module", "in the checkpoint", "non-default args")
"""One of these stands in every line that matters; looking for them first is what makes a large log cheap."""


def weight_problems(lines: Iterable[str]) -> tuple[WeightProblem, ...]:
    """Every line that tells of dummy, uninitialised or skipped weights, each wording once (workers repeat it).

    Only the last start in the log counts: a restarted container writes on into the same log.
    """
    found: dict[str, WeightProblem] = {}
    for number, line in enumerate(lines, start=1):
        if not any(map(line.__contains__, _NEEDLES)):
            continue
        if _NEW_START.search(line):
            found.clear()
        for rule, symptom, meaning in _RULES:
            if hit := rule.search(line):
                found.setdefault(hit.group(), WeightProblem(symptom, meaning, line.strip(), number))
                break
    return tuple(found.values())
