"""A tokenizer may tidy a text, but not change it."""

from __future__ import annotations

from vllm_gate.judge.degeneration import scripts
from vllm_gate.judge.round_trip import SAMPLES, survives, survives_normalized


def test_a_text_survives_with_or_without_space_around_it() -> None:
    assert survives("héllo", " héllo")
    assert not survives("héllo", "hello")


def test_compatibility_forms_case_and_spacing_are_normalisation() -> None:
    assert survives_normalized("ﬁne  Day，", "fine day,")
    assert not survives_normalized("day", "dax")
    assert not survives_normalized("день", "")


def test_the_samples_cover_the_scripts_that_users_write() -> None:
    assert set(scripts("".join(SAMPLES.values()))) >= {"LATIN", "CJK", "CYRILLIC", "ARABIC", "DEVANAGARI", "THAI"}
