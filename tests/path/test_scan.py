"""Lines are found by their needles, whatever the cut of the bytes, and numbered as in the file."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_gate.path.scan import BLOCK, LONGEST_LINE, Scanner, blocks_of_chunks, blocks_of_lines

SCANNER = Scanner(["backend", "Kernel for"])


def found(*blocks: bytes) -> list[tuple[int, str]]:
    return list(SCANNER.lines(blocks))


def test_lines_with_a_needle_come_once_with_their_number() -> None:
    block = b"nothing\nUsing backend X, a backend\n\nSelected Kernel for y\nend"
    assert found(block) == [(2, "Using backend X, a backend"), (4, "Selected Kernel for y")]


def test_numbers_go_on_over_blocks() -> None:
    assert found(b"a\nb\n", b"c\nbackend\n", b"backend") == [(4, "backend"), (5, "backend")]


def test_a_needle_at_every_offset_of_a_word_is_found() -> None:
    for offset in range(9):
        assert found(b"-" * offset + b"back") == [(1, "-" * offset + "back")]


@pytest.mark.parametrize("block", [b"", b"b", b"bac", b"\n"])
def test_blocks_too_short_for_a_needle_hold_none(block: bytes) -> None:
    assert found(block) == []


def test_a_needle_of_less_than_four_characters_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter than 4"):
        Scanner(["MoE"])


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(["back", "Kernel for", "bac", "", "x" * 70, "ä€", "\ufffd"]), max_size=60),
    st.lists(st.integers(1, 40), max_size=30),
)
def test_the_same_lines_are_found_however_the_bytes_are_cut(lines: list[str], cuts: list[int]) -> None:
    whole = "\n".join(lines).encode()
    chunks, at = [], 0
    for cut in cuts:
        chunks.append(whole[at : at + cut])
        at += cut
    expected = [(n, line) for n, line in enumerate(lines, start=1) if "back" in line or "Kern" in line]
    assert list(SCANNER.lines(blocks_of_chunks([*chunks, whole[at:]]))) == expected
    assert list(SCANNER.lines(blocks_of_lines(lines))) == expected
    assert list(SCANNER.lines(blocks_of_lines(f"{line}\r\n" for line in lines))) == expected


def test_a_line_end_inside_a_line_counts_as_none() -> None:
    assert list(SCANNER.lines(blocks_of_lines(["a\nb", "backend"]))) == [(2, "backend")]


def test_blocks_stay_small_and_end_where_lines_end() -> None:
    chunks = [b"line of some length\n" * 100_000]
    sizes = [len(block) for block in blocks_of_chunks(chunks)]
    assert max(sizes) < 2 * BLOCK
    assert sum(sizes) == 2_000_000
    assert all(block.endswith(b"\n") for block in blocks_of_chunks(chunks))


def test_the_middle_of_an_endless_line_is_dropped() -> None:
    blocks = list(blocks_of_chunks([b"y" * 1000 for _ in range(5000)]))
    assert max(map(len, blocks)) <= LONGEST_LINE + BLOCK
