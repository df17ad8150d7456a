"""A GitHub stand-in whose every exchange is held to GitHub's own description, whatever the test looks at."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.github.contract import judge

from vllm_gate.simulator.github import GitHubStandIn

Start = Callable[..., GitHubStandIn]


@pytest.fixture
def github() -> Iterator[Start]:
    """`github(trouble=…)` starts one; at the end of the test all that was said is judged."""
    started: list[GitHubStandIn] = []

    def start(**settings: Any) -> GitHubStandIn:
        started.append(GitHubStandIn(**settings).__enter__())
        return started[-1]

    yield start
    for stand_in in started:
        stand_in.__exit__(None, None, None)
        judge(stand_in.exchanges, stand_in.prefix)
