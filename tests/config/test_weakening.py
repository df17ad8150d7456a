"""What a change takes away from the gates is told on its line; what it adds, or only changes, is not."""

import pytest
from tests.config.example import CONFIG, SETTINGS, examined

from vllm_gate.config.plan import Plan
from vllm_gate.config.weakening import weakened

SUITE = """\
cases:
  - id: capital
    prompt: What is the capital of France?
    expect: {contains: Paris}
  - id: sum
    prompt: 2 + 2 =
    expect: {exact: "4"}
"""


def plan(settings: str = SETTINGS, config: str = CONFIG, suite: str | None = None) -> Plan:
    built, errors, _ = examined(settings, config, suite=suite)
    assert built is not None, errors
    return built


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"logit_drift_tolerance": 0.02', '"logit_drift_tolerance": 0.2', "loosened from 0.02 to 0.2"),
        ('"pass_rate_threshold": 1.0', '"pass_rate_threshold": 0.5', "loosened from 1 to 0.5"),
        ('"json_parse_rate_threshold": 0.99', '"json_parse_rate_threshold": 0.9', "loosened from 0.99 to 0.9"),
        ('"check_nan_inf": true', '"check_nan_inf": false', "check_nan_inf is switched off"),
        ('"tool_call_schema_check": true', '"tool_call_schema_check": false', "tool_call_schema_check is switched off"),
        ('"compare_tp_variants": [1, 4]', '"compare_tp_variants": [4]', "compare_tp_variants lost 1"),
        ("[4096, 16384, 32768]", "[4096]", "context_lengths lost 16384, 32768"),
        ('"weights_load", ', "", "checks lost weights_load"),
        ('"expected_output": "OK"', '"expected_output": "!!"', "expected_output is changed from 'OK' to '!!'"),
        ('"gate_2_logit_drift_exceeded",', "", "the rollback condition gate_2_logit_drift_exceeded is removed"),
        (
            '"gate_2_numerical": {\n      "enabled": true',
            '"gate_2_numerical": {\n      "enabled": false',
            "gate_2_numerical is switched off",
        ),
    ],
)
def test_less_is_asked(old: str, new: str, words: str) -> None:
    assert old in SETTINGS
    (warning,) = weakened(plan(), plan(SETTINGS.replace(old, new)))
    assert words in warning.message
    assert warning.warning
    changed = [number for number, line in enumerate(SETTINGS.splitlines(), 1) if old.splitlines()[-1].strip() in line]
    assert warning.location.path == "settings.json"
    assert any(abs(warning.location.line - number) <= 1 for number in changed) or "condition" in words
    if "changed from" not in words:
        assert not weakened(plan(SETTINGS.replace(old, new)), plan()), "stricter is nobody's worry"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("auto_rollback = true", "auto_rollback = false", "auto_rollback is switched off"),
        ("parallelism_tp = 4\n", "", "no longer declares parallelism_tp = 4"),
    ],
)
def test_less_is_declared(old: str, new: str, words: str) -> None:
    (warning,) = weakened(plan(), plan(config=CONFIG.replace(old, new)))
    assert words in warning.message
    assert warning.location.path == "config.toml"


def test_golden_cases_that_are_gone_or_expect_something_else() -> None:
    other = SUITE.replace("Paris", "a")
    assert "capital expects something else" in weakened(plan(suite=SUITE), plan(suite=other))[0].message
    fewer = SUITE[: SUITE.index("  - id: sum")]
    assert "sum is removed" in weakened(plan(suite=SUITE), plan(suite=fewer))[0].message
    assert not weakened(plan(suite=fewer), plan(suite=SUITE))


def test_what_changes_no_strength_is_no_warning() -> None:
    patient = SETTINGS.replace('"timeout_sec": 300', '"timeout_sec": 900')
    assert not weakened(plan(), plan(patient))
    assert not weakened(plan(), plan())
