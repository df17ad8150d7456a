"""What the runner is told, in its own syntax."""

import io
from pathlib import Path

import pytest

from vllm_gate.core.finding import Location
from vllm_gate.github.commands import MESSAGE_LIMIT, WorkflowCommands


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def test_an_annotation_names_file_line_and_title_with_everything_escaped(out: io.StringIO) -> None:
    at = Location("settings.json", 19, 7)
    WorkflowCommands(out).annotate("error", "50% wrong\nroll back", title="gate 3: probe, n=8", at=at)
    assert out.getvalue() == (
        "::error title=gate 3%3A probe%2C n=8,file=settings.json,line=19,col=7::50%25 wrong%0Aroll back\n"
    )


def test_an_annotation_without_a_place_has_no_empty_properties(out: io.StringIO) -> None:
    WorkflowCommands(out).annotate("warning", "x")
    assert out.getvalue() == "::warning::x\n"


def test_a_long_message_stays_below_what_the_runner_cuts(out: io.StringIO) -> None:
    WorkflowCommands(out).annotate("notice", "x" * 10_000)
    assert len(out.getvalue()) == len("::notice::\n") + MESSAGE_LIMIT


def test_hostile_text_ends_no_annotation(out: io.StringIO) -> None:
    WorkflowCommands(out).annotate("error", "a\r\n::set-output name=verdict::pass\x1b[2J")
    assert len(out.getvalue().splitlines()) == 1
    assert "\x1b" not in out.getvalue()


def test_each_line_of_a_secret_is_masked(out: io.StringIO) -> None:
    WorkflowCommands(out).mask("first%\n\nsecond")
    assert out.getvalue() == "::add-mask::first%25\n::add-mask::second\n"


def test_outputs_and_summary_go_to_their_files(
    out: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        (tmp_path / variable).touch()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    commands = WorkflowCommands(out)
    commands.output("verdict", "fail")
    commands.output("report-json", '{"a":\n1}')
    commands.summary("# one")
    commands.summary("two\n")
    lines = (tmp_path / "GITHUB_OUTPUT").read_text().splitlines()
    assert [line.split("<<")[0] for line in lines if "<<" in line] == ["verdict", "report-json"]
    assert lines[1] == "fail"
    assert lines[4:6] == ['{"a":', "1}"]
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text() == "# one\ntwo\n"
    assert out.getvalue() == ""


def test_outside_of_actions_nothing_is_printed_as_a_command(
    out: io.StringIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    WorkflowCommands(out).output("verdict", "pass")
    WorkflowCommands(out).summary("x")
    assert (out.getvalue(), capsys.readouterr().out) == ("", "")


def test_a_group_closes_when_what_is_inside_breaks(out: io.StringIO) -> None:
    with pytest.raises(RuntimeError), WorkflowCommands(out).group("a\nb"):
        raise RuntimeError
    assert out.getvalue() == "::group::a\\nb\n::endgroup::\n"
