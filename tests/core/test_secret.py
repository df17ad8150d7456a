"""Secrets do not print, and what is printed holds none."""

from dataclasses import dataclass

from vllm_gate.core.finding import Evidence, EvidenceKind, Finding
from vllm_gate.core.redact import redact
from vllm_gate.core.secret import Redactor, Secret
from vllm_gate.core.verdict import Verdict


def test_a_secret_prints_as_a_mask() -> None:
    key = Secret("sk-live-1234")
    assert "1234" not in f"{key} {key!r} {[key]}"
    assert key.reveal() == "sk-live-1234"


def test_every_secret_is_masked_longest_first() -> None:
    mask = Redactor([Secret("abcd"), Secret("abcdefgh")])
    assert mask("key=abcdefgh, short=abcd") == "key=***, short=***"


def test_values_too_short_to_be_keys_would_hide_the_report_and_are_left() -> None:
    assert Redactor([Secret("a"), Secret("")])("a banana") == "a banana"


def test_a_key_is_taken_out_of_every_corner_of_a_record() -> None:
    @dataclass(frozen=True)
    class Nested:
        finding: Finding
        facts: dict[str, object]

    key = "sk-live-1234"
    evidence = Evidence(EvidenceKind.RESPONSE, f"{key} title", f"you sent {key}")
    record = Nested(
        Finding(check="c", verdict=Verdict.FAIL, message=f"m {key}", remedy=key, evidence=(evidence,)),
        {"list": [key, 1, None, True], key: {"deep": (key,)}},
    )
    assert key not in repr(redact(record, Redactor([Secret(key)])))
    assert redact(record, Redactor([])) == record
