"""Servers that several tests share: started on first use, never more than two at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.lab.install import REPOSITORY, Lab
from tests.e2e.lab.serve import Server, serving


@pytest.fixture(scope="session")
def lab() -> Lab:
    """What `tests/e2e/run` has installed."""
    return Lab(REPOSITORY / ".lab")


@pytest.fixture(scope="session")
def healthy(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """TP=1, up for the whole run: the server under test, and the reference of the others."""
    with serving(lab, _log(tmp_path_factory, "healthy-tp1")) as server:
        yield server


@pytest.fixture(scope="module")
def faulty(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """TP=3 with the original fault."""
    with serving(lab, _log(tmp_path_factory, "fp32-as-bf16-tp3"), tp=3, fault="fp32_as_bf16") as server:
        yield server


def _log(factory: pytest.TempPathFactory, name: str) -> Path:
    return factory.mktemp(name) / "vllm.log"
