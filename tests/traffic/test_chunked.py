"""The chunked coding, by the grammar of RFC 9112: whole bodies come back, damaged ones are refused."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_gate.traffic.chunked import read_chunked

EXAMPLE = b"4\r\nWiki\r\n5;name=value\r\npedia\r\nE\r\n in\r\n\r\nchunks.\r\n0\r\nExpires: never\r\n\r\n"


def test_a_body_in_chunks_with_extensions_and_trailers() -> None:
    stream = BytesIO(EXAMPLE + b"POST / HTTP/1.1")
    assert read_chunked(stream, 100) == b"Wikipedia in\r\n\r\nchunks."
    assert stream.read() == b"POST / HTTP/1.1", "the next request is left where it is"


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8))
def test_whatever_is_sent_arrives(parts: list[bytes]) -> None:
    coded = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    assert read_chunked(BytesIO(coded), 1000) == b"".join(parts)


@pytest.mark.parametrize("kept", range(len(EXAMPLE)))
def test_a_body_that_was_cut_off_anywhere_is_refused(kept: int) -> None:
    with pytest.raises(ValueError, match=r"cut off|without its length"):
        read_chunked(BytesIO(EXAMPLE[:kept]), 100)


@pytest.mark.parametrize(
    ("coded", "told"),
    [
        (b"5\r\nhello\r\n0\r\n\r\n", "more than 4 bytes"),
        (b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n", "more than 4 bytes"),
        (b"ffffffffffffffff\r\n", "more than 4 bytes"),
        (b"-1\r\n\r\n", "without its length"),
        (b"0x1\r\na\r\n0\r\n\r\n", "without its length"),
        (b"1\r\nab\r\n0\r\n\r\n", "cut off"),
        (b"0\r\n" + b"A: b\r\n" * 65 + b"\r\n", "trailers without end"),
        (b"1" * 5000 + b"\r\n", "cut off"),
    ],
)
def test_damage_is_refused(coded: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_chunked(BytesIO(coded), 4)
