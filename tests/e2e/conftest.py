"""Servers that tests share. On two cores no more than two are up: the healthy one, and one variant after the other."""

from __future__ import annotations

from collections.abc import Iterator

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
    with serving(lab, tmp_path_factory.mktemp("healthy") / "vllm.log") as server:
        yield server


@pytest.fixture(scope="session")
def variant(request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The variant that a test is marked with; it takes the place of the one before."""
    log = tmp_path_factory.mktemp("variant") / "vllm.log"
    with serving(lab, log, tp=request.param.tp, fault=request.param.fault) as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one variant one after the other, so that each is started once."""
    items.sort(key=lambda item: repr(item.callspec.params.get("variant")) if hasattr(item, "callspec") else "")
