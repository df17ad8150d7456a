"""A capture comes back as it was written; anything else is told apart."""

import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_gate.errors import FileProblem
from vllm_gate.judge.positions import pack
from vllm_gate.judge.snapshot import FORMAT, Snapshot, from_bytes, to_bytes
from vllm_gate.judge.trace import Trace, shared_decoding

POSITIONS = pack([(5, -0.123456789, [(5, -0.123456789), (6, -2.0)]), (7, math.nan, [(8, -1.0)])], 3)
TRACE = Trace(prompt_id="p", token_ids=(1, 2, 5, 7), start=2, forced=POSITIONS, decoded=None)
WHOLE = Snapshot(facts={"service": "tp.1", "model": "m"}, traces=(TRACE,), prose=(TRACE,), limits=("no key",))


def test_a_capture_comes_back_to_five_decimals() -> None:
    back = from_bytes(to_bytes(WHOLE), "x")
    assert back.facts == WHOLE.facts
    assert back.limits == ("no key",)
    (trace,) = back.traces
    assert (trace.prompt_id, trace.token_ids, trace.start, trace.decoded) == ("p", (1, 2, 5, 7), 2, None)
    assert trace.forced is not None
    assert trace.forced.ids.tolist() == POSITIONS.ids.tolist()
    assert trace.forced.logprobs[0].tolist() == [-0.12346, -2.0, -math.inf]
    assert math.isnan(trace.forced.target_logprob[1])


def test_the_same_capture_has_the_same_bytes() -> None:
    assert to_bytes(WHOLE) == to_bytes(WHOLE)


def test_a_capture_of_another_version_says_which() -> None:
    body = gzip.compress(json.dumps({"format": FORMAT, "version": 99}).encode())
    with pytest.raises(FileProblem, match="version 99, but this vllm-gate reads version 1"):
        from_bytes(body, "old.capture")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not gzip",
        gzip.compress(b"not json"),
        gzip.compress(b"[]"),
        gzip.compress(b'{"format": "something else"}'),
        to_bytes(WHOLE)[:-20],
        gzip.compress(json.dumps({"format": FORMAT, "version": 1, "facts": {}}).encode()),
        gzip.compress(
            json.dumps({"format": FORMAT, "version": 1, "facts": {}, "limits": [], "traces": [{"id": 1}]}).encode()
        ),
    ],
)
def test_what_is_no_capture_is_told_with_its_path(content: bytes) -> None:
    with pytest.raises(FileProblem, match=r"^x\.capture: "):
        from_bytes(content, "x.capture")


@given(st.binary(max_size=200))
def test_random_bytes_never_crash_the_reader(content: bytes) -> None:
    with pytest.raises(FileProblem):
        from_bytes(content, "x")


def generated(*tokens: int) -> Trace:
    rows = [(token, -0.5, [(token, -0.5), (99, -1.5)]) for token in tokens]
    return Trace(prompt_id="p", token_ids=(1,), start=1, decoded=pack(rows, 2))


def test_decoding_is_compared_up_to_and_including_the_first_difference() -> None:
    shared = shared_decoding(generated(1, 2, 3, 4), generated(1, 2, 9, 4))
    assert shared is not None
    ours, theirs, at = shared
    assert at == 2
    assert ours.target.tolist() == theirs.target.tolist() == [1, 2, 3]
    assert theirs.ids[2].tolist() == [9, 99]


def test_equal_and_shorter_texts_have_no_difference() -> None:
    shared = shared_decoding(generated(1, 2, 3), generated(1, 2))
    assert shared is not None
    assert (len(shared[0]), shared[2]) == (2, None)


def test_nothing_decoded_is_nothing_to_compare() -> None:
    assert shared_decoding(generated(), generated(1)) is None
    assert shared_decoding(generated(1), Trace(prompt_id="p", token_ids=(), start=0)) is None
    assert np.isfinite(POSITIONS.target_logprob[0])
