"""Whatever ends a release's run, its observers hear of an end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vllm_gate.app.observers import Quiet
from vllm_gate.app.release import Options, judge_release
from vllm_gate.core.report import Report
from vllm_gate.errors import Interrupted


class Heard(Quiet):
    """Is interrupted at the event named."""

    def __init__(self, interrupted_at: str = "") -> None:
        self.interrupted_at, self.events = interrupted_at, list[str]()

    def run_finished(self, report: Report) -> None:
        self._hear("finished")

    def run_aborted(self, why: str) -> None:
        self._hear(f"aborted: {why}")

    def _hear(self, event: str) -> None:
        self.events.append(event)
        if event == self.interrupted_at:
            raise Interrupted("interrupted by SIGTERM")


@pytest.fixture(autouse=True)
def nothing_to_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the order of things is looked at here."""
    for name, result in {"judge": SimpleNamespace(), "decide": None, "masked": None, "write_report": Path()}.items():
        monkeypatch.setattr(f"vllm_gate.app.release.{name}", lambda *_, result=result, **__: result)
    monkeypatch.setattr("vllm_gate.app.release.replace", lambda value, **_: value)


def run(observer: Heard, act: Any = lambda _: None) -> None:
    rollback = SimpleNamespace(auto_rollback=True, on_pull_request=False)
    plan = cast("Any", SimpleNamespace(conditions=(), rollback=rollback))
    judge_release(plan, (), Options(rollback="auto"), observer=observer, clock=cast("Any", None), environ={}, act=act)


def test_a_run_that_ends_is_finished() -> None:
    observer = Heard()
    run(observer)
    assert observer.events == ["finished"]


def test_an_interruption_while_the_end_is_told_is_an_abort_too() -> None:
    observer = Heard("finished")
    with pytest.raises(Interrupted):
        run(observer)
    assert observer.events == ["finished", "aborted: interrupted by SIGTERM"]


def test_an_interruption_during_the_rollback_is_an_abort() -> None:
    def act(_: Report) -> None:
        raise Interrupted("interrupted by SIGINT")

    observer = Heard()
    with pytest.raises(Interrupted):
        run(observer, act)
    assert observer.events == ["aborted: interrupted by SIGINT"]
