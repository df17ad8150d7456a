"""A problem in a configuration file: where it is, what is wrong, and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from vllm_gate.core.finding import Location
from vllm_gate.core.printable import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One problem. `warning` marks what does not keep the files from being used."""

    location: Location
    key: str
    """Dotted, as in `gate_config.gate_2_numerical.logit_drift_tolerance`; "" for the file as a whole."""
    message: str
    warning: bool = False

    def __str__(self) -> str:
        kind = "warning" if self.warning else "error"
        line = f"{self.location}: {kind}: {f'{self.key}: ' if self.key else ''}{self.message}"
        return printable(line, one_line=True)


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Each problem once, file by file from top to bottom."""
    unique = {str(diagnostic): diagnostic for diagnostic in diagnostics}
    return tuple(
        sorted(unique.values(), key=lambda d: (d.location.path, d.location.line, d.location.column or 0, str(d)))
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?` with the nearest known name, or the known ones when none is near."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(names)}"
