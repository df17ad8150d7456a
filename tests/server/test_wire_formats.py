"""Tables of the small readers: server-sent events, JSON bodies, Prometheus' text, addresses."""

from __future__ import annotations

import itertools
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_gate.errors import UnusableAnswer
from vllm_gate.server.json_body import parse_object
from vllm_gate.server.metrics import parse_metrics
from vllm_gate.server.roots import api_roots, server_root
from vllm_gate.server.sse import event_data


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: 1\n\ndata: 2\n\n", [b"1", b"2"]),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", [b"1", b"2"]),
        (b"data:1\n\n", [b"1"]),
        (b"data:  two spaces \n\n", [b" two spaces "]),
        (b"event: x\nid: 7\nretry: 1\ndata: 1\n\n", [b"1"]),
        (b": ping\n\n: ping\n\ndata: 1\n\n", [b"1"]),
        (b"data: {\ndata: }\n\n", [b"{\n}"]),
        (b"data: 1\n\n\n\n\ndata: 2\n\n", [b"1", b"2"]),
        (b"data: 1\n\ndata: no end", [b"1", b"no end"]),
        (b"data: line\xe2\x80\xa8separator\n\n", [b"line\xe2\x80\xa8separator"]),
        (b"database: 1\n\n", []),
        (b"", []),
    ],
)
def test_events_of_a_stream(stream: bytes, events: list[bytes]) -> None:
    assert list(event_data([stream])) == events


@given(st.lists(st.integers(0, 60), max_size=8))
def test_events_do_not_depend_on_how_their_bytes_arrive(cuts: list[int]) -> None:
    stream = b'event: a\r\ndata: {"a":\r\ndata: 1}\r\n\r\n: ping\n\ndata: \xe4\xb8\x96\n\ndata: [DONE]\n\n'
    edges = [0, *sorted(cuts), len(stream)]
    chunks = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert list(event_data(chunks)) == [b'{"a":\n1}', b"\xe4\xb8\x96", b"[DONE]"]


@pytest.mark.parametrize(
    ("body", "value", "nonfinite"),
    [
        (b'{"a": 1.5}', 1.5, 0),
        (b'{"a": Infinity}', math.inf, 1),
        (b'{"a": -Infinity}', -math.inf, 1),
        (b'{"a": 1e999}', math.inf, 1),
        (b'{"a": [1.0, -1e999]}', [1.0, -math.inf], 1),
        (b'{"a": "NaN"}', "NaN", 0),
        (b'\xef\xbb\xbf{"a": 1}', 1, 0),
    ],
)
def test_numbers_that_are_not_finite_are_kept_and_counted(body: bytes, value: object, nonfinite: int) -> None:
    parsed = parse_object(body, "it")
    assert (parsed.value["a"], parsed.nonfinite) == (value, nonfinite)


def test_nan_is_kept_and_counted() -> None:
    parsed = parse_object(b'{"logprobs": [NaN, -0.5, NaN]}', "it")
    assert repr(parsed.value["logprobs"]) == "[nan, -0.5, nan]"
    assert parsed.nonfinite == 2


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>502 Bad Gateway</html>",
        b'{"a": 1',
        b'{"a": 1} {"b": 2}',
        b"[1, 2]",
        b"null",
        b"NaN",
        b'"text"',
        b'{"a": "\xff\xfe"}',
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b"\x00\x01",
    ],
    ids=lambda body: repr(body[:20]),
)
def test_a_body_that_is_no_json_object_is_unusable(body: bytes) -> None:
    with pytest.raises(UnusableAnswer, match=r"^it is ") as failure:
        parse_object(body, "it")
    assert len(str(failure.value)) < 400


def test_the_beginning_of_an_unusable_body_is_quoted_and_harmless() -> None:
    with pytest.raises(UnusableAnswer, match=re.escape(r'"<b>\x1b[31m')):
        parse_object(b"<b>\x1b[31mred\n::error::x", "it")


def test_metrics_are_summed_over_labels() -> None:
    text = (
        "# HELP vllm:x_total Things.\n# TYPE vllm:x_total counter\n"
        'vllm:x_total{engine="0",model_name="m"} 2.0\n'
        'vllm:x_total{engine="1",model_name="a \\"}{\\" b"} 3.0 1796125211000\n'
        "plain 7\nbig 1.5e+06\ninfinite +Inf\n"
        "not a sample\nbroken{ 3\nno_number x\n\n"
    )
    assert parse_metrics(text) == {
        "vllm:x_total": 5.0,
        "plain": 7.0,
        "big": 1_500_000.0,
        "infinite": math.inf,
    }


@pytest.mark.parametrize(
    ("base_url", "roots", "root"),
    [
        ("http://h:8000/v1", ("http://h:8000/v1",), "http://h:8000"),
        ("http://h:8000/v1/", ("http://h:8000/v1",), "http://h:8000"),
        ("http://h:8000", ("http://h:8000", "http://h:8000/v1"), "http://h:8000"),
        ("http://h:8000///", ("http://h:8000", "http://h:8000/v1"), "http://h:8000"),
        ("https://h/api/v1", ("https://h/api/v1",), "https://h/api"),
        ("https://h/api/v3", ("https://h/api/v3", "https://h/api/v3/v1"), "https://h/api/v3"),
    ],
)
def test_roots(base_url: str, roots: tuple[str, ...], root: str) -> None:
    assert api_roots(base_url) == roots
    assert server_root(base_url) == root
