"""Other ways to serve the same model, as marks of the tests that need one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest


@dataclass(frozen=True, slots=True)
class Variant:
    """Tensor-parallel size, and what is wrong."""

    tp: int
    fault: str = ""


@cache  # pytest keeps a fixture only for the identical parameter
def serves(tp: int, fault: str = "") -> pytest.MarkDecorator:
    """Mark a test with the server that its fixture `variant` is."""
    return pytest.mark.parametrize("variant", [Variant(tp, fault)], indirect=True, ids=[f"tp{tp}-{fault or 'healthy'}"])
