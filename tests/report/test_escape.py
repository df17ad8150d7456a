"""Hostile text stays text on GitHub's pages. Judged by a Markdown parser, not by the escapes themselves."""

import html
import re

import pytest
from cmarkgfm import github_flavored_markdown_to_html
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from vllm_gate.core.printable import printable
from vllm_gate.report.escape import code_block, cut_bytes, markdown, table_cell, whole_blocks

PARSER = MarkdownIt("gfm-like", {"linkify": False})
NASTY = st.text(alphabet="`~|*_<>[]()#!@&\\:/.-= \nab1é\u202e\x1b$", max_size=40)


APART = "\u200b"
"""Takes up no room. Keeps `@` and `#` apart from what follows."""


def plain(page: str) -> str:
    return html.unescape(page).replace(APART, "")


@given(NASTY)
def test_inline_text_makes_no_element(text: str) -> None:
    html = PARSER.renderInline(markdown(text))
    assert re.findall(r"<[^>]*>", html) == []


@pytest.mark.parametrize(
    "text",
    ["!!!!", "**bold** _it_", "<b>x</b>", "[a](https://x)", "a|b", "`code`", "#1", "~~x~~", "a & b", "$x$", "\\"],
)
def test_a_reader_sees_the_text_as_it_was(text: str) -> None:
    assert plain(PARSER.renderInline(markdown(text))) == text


@given(NASTY)
def test_github_s_own_parser_makes_one_paragraph_of_it(text: str) -> None:
    page = github_flavored_markdown_to_html(markdown(text))
    shown = printable(text, one_line=True).strip()
    assert re.findall(r"<[^>]*>", page) == (["<p>", "</p>"] if shown else [])
    # It writes a line's last spaces, and several in a row, as they come; a browser shows one.
    assert plain(re.sub(r"</?p>", "", page)).strip() == shown


@pytest.mark.parametrize(
    "text",
    ["1. one", "12) x", "- x", "+ x", "- [ ] x", "---", "    code", "me@example.org", "mailto:me@example.org", "# x"],
)
def test_no_list_rule_code_or_address_comes_of_it(text: str) -> None:
    page = github_flavored_markdown_to_html(markdown(text))
    assert plain(page) == f"<p>{text.strip()}</p>\n"


@pytest.mark.parametrize("text", ["@org/team", "#12", "org/repo#12", "GH-12", "org/repo@0123abc", "a@b.example"])
def test_nothing_in_the_finished_page_reads_as_a_reference(text: str) -> None:
    page = html.unescape(github_flavored_markdown_to_html(markdown(text)))
    assert re.findall(r"@\w|#\w|GH-\d", page) == []


def test_nobody_is_mentioned_and_nothing_is_linked() -> None:
    assert "@org" not in markdown("@org/team")
    assert "://" not in markdown("see https://evil.example")
    assert "www." not in markdown("www.evil.example")


@given(NASTY)
def test_a_cell_stays_one_cell(text: str) -> None:
    html = PARSER.render(f"| a | b |\n|---|---|\n| {table_cell(text)} | end |\n")
    assert html.count("<td>") == 2
    assert "<td>end</td>" in html


@given(NASTY)
def test_a_fence_holds_whatever_is_in_it(text: str) -> None:
    html = PARSER.render(f"{code_block(text)}\n\nafter\n")
    assert html.count("<pre>") == 1
    assert html.rstrip().endswith("<p>after</p>")


@given(st.text(max_size=60), st.integers(8, 80))
def test_a_cut_counts_bytes_and_halves_no_character(text: str, limit: int) -> None:
    cut = cut_bytes(text, limit, "…")
    assert len(cut.encode()) <= max(limit, 0)
    assert cut == text or cut.removesuffix("…") == text[: len(cut) - 1]


def test_blocks_are_kept_whole_and_the_rest_is_told() -> None:
    blocks = ["a" * 10, "b" * 10, "c" * 10]
    assert whole_blocks(blocks, 100, "cut") == "aaaaaaaaaa\n\nbbbbbbbbbb\n\ncccccccccc\n"
    assert whole_blocks(blocks, 35, "cut") == "aaaaaaaaaa\n\nbbbbbbbbbb\n\ncut\n"
    assert len(whole_blocks(blocks, 35, "cut").encode()) <= 35
