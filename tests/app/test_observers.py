"""Several observers hear the same; one that breaks keeps nothing from the others."""

import pytest

from vllm_gate.app.observers import Quiet, Several
from vllm_gate.core.report import Report
from vllm_gate.errors import Interrupted

REPORT = Report(tool_version="1", started_at="", duration_s=0, gates=())


class Heard(Quiet):
    def __init__(self) -> None:
        self.reports: list[Report] = []

    def run_finished(self, report: Report) -> None:
        self.reports.append(report)


class Broken(Quiet):
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def run_finished(self, report: Report) -> None:
        raise self._error


def test_one_that_breaks_stops_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    heard = Heard()
    Several(Broken(ValueError("full")), heard).run_finished(REPORT)
    assert heard.reports == [REPORT]
    assert "Broken failed: full" in capsys.readouterr().err


def test_an_interruption_is_no_breakage() -> None:
    with pytest.raises(Interrupted):
        Several(Broken(Interrupted("stop"))).run_finished(REPORT)
