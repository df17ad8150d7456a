"""No text of a model, a log or a file is obeyed by the runner."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_gate.github.neutral import NeutralWriter, neutral


def obeyed(line: str) -> bool:
    """Whether the runner takes the line for a command: actions/runner, `ActionCommand.TryParseV2` and `TryParse`.

    The first form counts at the start of the line once white space is trimmed, the second anywhere in it.
    """
    return line.strip().startswith("::") or "##[" in line


@pytest.mark.parametrize(
    "line",
    [
        "::set-output name=verdict::pass",
        "  ::error::x",
        "\t::add-mask::a",
        "\u00a0::stop-commands::t",
        "##[error]x",
        "answer: ##[add-mask]the",
        "####[group]x",
        "::::x",
    ],
)
def test_commands_become_text(line: str) -> None:
    assert obeyed(line)
    assert not obeyed(neutral(line))
    assert neutral(line).replace("\u200b", "") == line


@pytest.mark.parametrize("line", ["at::native::add", "a ::b", "# [x]", "torch::jit", "1 :: 2", ""])
def test_what_is_no_command_stays_as_it_is(line: str) -> None:
    assert neutral(line) == line


@given(st.lists(st.text(alphabet=":#[ \n\r\tab\u00a0e"), max_size=8))
def test_no_way_of_cutting_a_text_makes_a_command(pieces: list[str]) -> None:
    out = io.StringIO(newline="")
    writer = NeutralWriter(out)
    for piece in pieces:
        writer.write(piece)
        writer.flush()
    writer.finish()
    written = out.getvalue()
    assert not any(map(obeyed, re.split(r"[\r\n]", written)))
    assert written.replace("\u200b", "").rstrip("\n") == "".join(pieces).rstrip("\n")


def test_an_unfinished_line_waits_for_its_end() -> None:
    out = io.StringIO()
    writer = NeutralWriter(out)
    writer.write(":")
    writer.flush()
    assert out.getvalue() == ""
    writer.write(":error::x\n")
    assert out.getvalue() == ":\u200b:error::x\n"
