"""Prometheus' text format, as far as a gate needs it: each metric's value, summed over its labels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

_SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})?\s+(\S+)')


def parse_metrics(text: str) -> Mapping[str, float]:
    """Metric name to the sum of its samples. Lines that are no samples are passed over.

    Summing suits counters (several engines of one server); a gauge of one engine is its own sum.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    for line in text.splitlines():
        if sample := _SAMPLE.match(line):
            try:
                value = float(sample[2])
            except ValueError:  # a name that has no number stays missing: it must not read as 0
                continue
            sums[sample[1]] += value
    return dict(sums)
