"""Every way to get the two files wrong: the message names the right line, the value, what is allowed, and the fix."""

import pytest
from tests.config.example import CONFIG, SETTINGS, examined


def change(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


SETTINGS_CASES = [
    # (old, new, "line:column", words in the message)
    ('"logit_drift_tolerance": 0.02', '"logit_drift_tolerance": "0.02"', "10:7", ["0.02 without quotes", "a number"]),
    ('"logit_drift_tolerance": 0.02', '"logit_drift_tolerance": 0', "10:7", ["too small", "above 0"]),
    ('"logit_drift_tolerance": 0.02', '"logit_drift_tolerance": -1', "10:7", ["too small"]),
    ('"logit_drift_tolerance": 0.02', '"logit_drift_tolerance": true', "10:7", ["true (a boolean)", "a number"]),
    ('"logit_drift_tolerance": 0.02', '"logit_drift_tolerence": 0.02', "10:7", ["mean 'logit_drift_tolerance'"]),
    ('"logit_drift_tolerance": 0.02', '"logit_drift_tolerance": NaN', "10:32", ["NaN", "finite"]),
    ('"logit_drift_tolerance": 0.02', '"logit_drift_tolerance": 1e999', "10:7", ["inf", "finite"]),
    ('"gate_2_numerical"', '"gate_2_numeric"', "8:5", ["did you mean 'gate_2_numerical'"]),
    ('"timeout_sec": 300', '"timeout_sec": null', "6:7", ["null", "a number"]),
    ('"timeout_sec": 300', '"timeout_sec": 300,', "6:25", ["comma", "remove"]),
    ('"timeout_sec": 300', "'timeout_sec': 300", "6:7", ["double quotes"]),
    ('"timeout_sec": 300', '"timeout_sec" 300', "6:21", ["':' is missing"]),
    ('"enabled": true,\n      "checks"', '"enabled": "true",\n      "checks"', "4:7", ["true without quotes"]),
    ('"enabled": true,\n      "checks"', '"enabled": True,\n      "checks"', "4:18", ["write true, not True"]),
    ('"enabled": true,\n      "checks"', '"enabled": true, "enabled": false,\n      "checks"', "4:24", ["twice"]),
    ('"ready_endpoint"]', '"ready_endpont"]', "5:74", ["did you mean 'ready_endpoint'"]),
    ('"ready_endpoint"]', '"weights_load"]', "5:7", ["twice"]),
    ("[1, 4]", "[1, 4.5]", "13:34", ["4.5", "whole number"]),
    ("[1, 4]", '[1, 4], "prompts": 200', "13:38", ["max_prompts must be at least as large"]),
    ("[1, 4]", '[1, 4], "prompts": 40, "max_prompts": 39', "13:53", ["max_prompts must be at least as large"]),
    ("[1, 4]", "4", "13:7", ["a list", "write [4]"]),
    ("[1, 4]", "[0]", "13:31", ["too small", "at least 1"]),
    ('"expected_output": "OK"', '"expected_output": " "', "18:7", ["blank"]),
    ('"expected_output": "OK"', '"expected_output": "\\ud800"', "18:7", ["surrogate"]),
    ('"expected_output": "OK"', '"expected_output": "\\ud800"', "18:7", ["surrogate"]),
    ('"timeout_sec": 300', '"timeout_sec": ' + "9" * 5000, "6:22", ["too many digits"]),
    ('"expected_output": "OK"', '"expected_output": 1', "18:7", ["1 (a number)", "a text"]),
    ('"max_tokens": 16', '"max_tokens": 0', "19:7", ["too small", "at least 1"]),
    ('"temperature": 0', '"temperature": 3', "20:7", ["too large", "at most 2"]),
    ('"pass_rate_threshold": 1.0', '"pass_rate_threshold": 1.5', "21:7", ["too large", "at most 1"]),
    ('"pass_rate_threshold": 1.0', '"pass_rate_threshold": 100', "21:7", ["too large"]),
    ('"traffic_ratio": 0.05', '"traffic_ratio": "5%"', "31:7", ['"5%"', "a number"]),
    ('"traffic_ratio": 0.05', '"traffic_ratio": 0', "31:7", ["too small", "above 0"]),
    ('"traffic_ratio": 0.05', '"traffic_ratio": 5', "31:7", ["too large", "at most 1"]),
    ('"traffic_ratio": 0.05', '"max_requests": 0', "31:7", ["too small", "at least 1"]),
    ('"gate_3_deterministic_probe_failed"', '"gate_3_probe_failed"', "37:5", ["unknown condition", "did you mean"]),
    ('"gate_3_deterministic_probe_failed"', '"xyz"', "37:5", ["unknown condition 'xyz'", "--conditions"]),
    ('"gate_3_deterministic_probe_failed"', "7", "37:5", ["7 (a number)", "a text"]),
    ('"rollback_conditions"', '"rollback_condition"', "36:3", ["did you mean 'rollback_conditions'"]),
    ('"gate_config"', '"gates"', "2:3", ["unknown key 'gates'"]),
    ("{\n  \"gate_config\"", "{\n  // gates\n  \"gate_config\"", "2:3", ["double quotes"]),
]  # fmt: skip

VALIDATOR_CASES = [
    # (keys beside the name, column, words in the message)
    ('"regex": "("', 36, "not a regular expression"),
    ('"where": "[", "regex": "a"', 36, "not a regular expression"),
    ('"json_schema": {"type": "x"}', 36, "not a JSON Schema: 'x'"),
    ('"tool_schema": {"f": {"type": "x"}}', 36, "f: not a JSON Schema"),
    ('"tool_schema": {"f": 1}', 36, "f: a JSON Schema belongs here"),
    ('"where": "a"', 22, "exactly one of 'regex' or 'json_schema' or 'tool_schema' or 'command'"),
    ('"regex": "b"}, {"name": "a", "regex": "c"', 52, "'a' is taken by a validator above"),
]

CONFIG_CASES = [
    ('"http://127.0.0.1:8000/v1"', '"127.0.0.1:8000/v1"', "2:1", ["no address", "http://HOST:PORT/v1"]),
    ('"http://127.0.0.1:8000/v1"', '"http://127.0.0.1:80000/v1"', "2:1", ["host or port", "http://HOST:PORT"]),
    ('"http://127.0.0.1:8000/v1"', '"http://me:secret@127.0.0.1/v1"', "2:1", ["user or password", "api_key_env"]),
    ('"http://127.0.0.1:8000/v1"', '"http://127.0.0.1/v1?key=1"', "2:1", ["must end with its path"]),
    ('"http://127.0.0.1:8000/v1"', "8000", "2:1", ["8000 (a number)", "a text"]),
    ('"http://127.0.0.1:8000/v1"', '"http://127.0.0.1:8000/v1 "', "2:1", ["no address"]),
    ('"http://127.0.0.1:8000/v1"', '"http://127.0.0.1/v1/chat/completions"', "2:1", ["leave that part out"]),
    ('"https://your-alert-endpoint/hook"', '"https://"', "24:1", ["no address"]),
    ("parallelism_tp = 4", "parallelism_tp = " + "9" * 5000, "1:1", ["too many digits"]),
    ("parallelism_tp = 4", "parallelism_tp = " + "[" * 200 + "]" * 200, "14:117", ["too deeply"]),
    ("parallelism_tp = 4", "a." * 500 + "b = 1", "14:199", ["too deeply"]),
    ('api_key_env = "VLLM_LOCAL_KEY"', 'api_key_env = "sk-0123"', "4:1", ["name the variable"]),
    ('"http://127.0.0.1:8000/v1"', '"http://127.0.0.1/v1#top"', "2:1", ["must end with its path"]),
    ("[matrix]", '[service.tp.2]\ntimeout_sec = 9\n[matrix]', "11:13", ["'base_url' (live) or 'snapshot'"]),
    ('base_url = "http', 'baseurl = "http', "2:1", ["did you mean 'base_url'"]),
    ('base_url = "http://127.0.0.1:8000/v1"\n', "", "1:10", ["'base_url' is missing"]),
    ('model = "nvidia/Qwen3.6-27B-NVFP4"\n', "", "1:10", ["'model' is missing"]),
    ("[service.under_test]", "[service.undertest]", "1:10", ["did you mean 'under_test'"]),
    ("[service.under_test]", "[service.under_test", "1:20", ["expected ']'"]),
    ("[service.baseline]", "[service.under_test]", "6:20", ["cannot declare service.under_test twice"]),
    ("[service.baseline]", "[service.tp.zero]", "6:13", ["unknown key 'zero'", "1, 2, 4"]),
    ("parallelism_tp = 4", 'parallelism_tp = "4"', "14:1", ["4 without quotes"]),
    ("parallelism_tp = 4", "parallelism_tp = 0", "14:1", ["too small"]),
    ("parallelism_tp = 4", "paralelism_tp = 4", "14:1", ["did you mean 'parallelism_tp'"]),
    ("fusion_allreduce_rms = true", "fusion_allreduce_rms = yes", "17:24", ["invalid value"]),
    ("auto_rollback = true", 'auto_rollback = "true"', "23:1", ["true without quotes"]),
    ("auto_rollback = true", "auto_rollback = true\nauto_rollback = false", "24:22", ["stands twice"]),
    ("notify_webhook =", 'format = "teams"\nnotify_webhook =', "24:1", ["not allowed", "dingtalk"]),
    ("notify_webhook =", 'notify_webhook_env = "HOOK"\nnotify_webhook =', "24:1", ["once, not twice"]),
    ('api_key_env = "VLLM_LOCAL_KEY"', 'api = "antropic"', "4:1", ["did you mean 'anthropic'"]),
    ('api_key_env = "VLLM_LOCAL_KEY"', "timeout_sec = inf", "4:1", ["inf", "finite"]),
    ("[rollback]", '[traffic]\nlog = "a"\nlisten = "127.0.0.1:9400"\n[rollback]', "24:1", ["not from both"]),
    ("[rollback]", '[traffic]\nlisten = "a:1"\nanswers = "recorded"\n[rollback]', "24:1", ["carries no answers"]),
    ("[rollback]", '[traffic]\nlog = "a"\nredact = ["a", "("]\n[rollback]', "24:16", ["not a regular expression"]),
    ("[rollback]", '[traffic]\nlogs = "a"\n[rollback]', "23:1", ["did you mean 'log'"]),
    ("[rollback]", "[traffic]\nlog = 7\n[rollback]", "23:1", ["7 (a number)"]),
    ('api_key_env = "TAOTOKEN_API_KEY"', 'snapshot = "a.snapshot"', "9:1", ["not both"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "place", "words"), SETTINGS_CASES, ids=[case[1][:60] for case in SETTINGS_CASES]
)
def test_a_broken_settings_file(old: str, new: str, place: str, words: list[str]) -> None:
    plan, errors, _ = examined(settings=change(SETTINGS, old, new))
    assert plan is None
    told = [error for error in errors if error.startswith(f"settings.json:{place}: error: ")]
    assert told, errors
    assert any(all(word in error for word in words) for error in told), told


@pytest.mark.parametrize(("keys", "column", "words"), VALIDATOR_CASES)
def test_a_broken_validator(keys: str, column: int, words: str) -> None:
    text = change(SETTINGS, '"traffic_ratio": 0.05', f'"validators": [{{"name": "a", {keys}}}]')
    plan, errors, _ = examined(settings=text)
    assert plan is None
    assert any(error.startswith(f"settings.json:31:{column}: error: ") and words in error for error in errors), errors


@pytest.mark.parametrize(("old", "new", "place", "words"), CONFIG_CASES, ids=[case[1][:60] for case in CONFIG_CASES])
def test_a_broken_config_file(old: str, new: str, place: str, words: list[str]) -> None:
    plan, errors, _ = examined(config=change(CONFIG, old, new))
    assert plan is None
    told = [error for error in errors if error.startswith(f"config.toml:{place}: error: ")]
    assert told, errors
    assert any(all(word in error for word in words) for error in told), told


def test_no_message_repeats_what_may_be_a_secret() -> None:
    config = """
[service.under_test]
base_url = "ftp://me:hunter2@host/v1"
model = "m"
api_key_env = "sk-hunter2"
[service.baseline]
base_url = "https://me:hunter2@host:99999/v1?key=hunter2"
model = "m"
api_key = "hunter2"
[service.tp.1]
base_url = "https://me:hunter2/v1"
model = "m"
[service.tp.2]
base_url = "https://me:hunter2@host/v1"
model = "m"
[service.tp.4]
base_url = "https://host/v1?key=hunter2"
model = "m"
[rollback]
notify_webhook = "hooks.example/hunter2"
notify_webhook_env = "https://hooks.example/hunter2"
"""
    _, errors, warnings = examined(config=config)
    assert len(errors) >= 9
    assert "hunter2" not in "".join(errors + warnings)


def test_a_key_can_steer_no_terminal() -> None:
    _, errors, _ = examined(settings='{"gate\\u001b[31m\\n": 1}')
    assert all("\x1b" not in error and "\n" not in error for error in errors)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("service:\n\tunder_test: x", "2:1", "cannot start any token"),
        ("a: 1\n---\nb: 2", "2:1", "expected a single document"),
        ("a: 1\na: 2", "2:1", "twice (first on line 1)"),
        ("a:\n  b: !!int x", "2:6", "put it in quotes"),
        ("a: !!timestamp x", "1:4", "put it in quotes"),
        ("a: 2026-13-01", "1:4", "put it in quotes"),
        ("a: \x07", "1:4", "control character"),
        ("a: !!python/object:os.system x", "1:4", "could not determine a constructor"),
        ("a: &a [*a]", "1:4", "too large or too deep"),
        ("? [a]\n: 1", "1:3", "a key must be a plain text"),
        ("# nothing", "1:1", "nothing but comments"),
        ("a: {b: .nan}", "1:5", "finite"),
    ],
)
def test_a_broken_yaml_file(text: str, place: str, words: str) -> None:
    _, errors, _ = examined(settings=text, names=("settings.yaml", "config.toml"))
    assert any(error.startswith(f"settings.yaml:{place}: error") and words in error for error in errors), errors


def test_every_problem_of_both_files_is_told_at_once() -> None:
    settings = change(change(SETTINGS, "0.02", '"0.02"'), '"gate_5_task_success_dropped"', '"gate_9_failed"')
    config = change(change(CONFIG, "= 4", "= 0"), '"http://127', '"127')
    _, errors, _ = examined(settings=settings, config=config)
    assert [error.partition(": error")[0] for error in errors] == [
        "config.toml:2:1",
        "config.toml:14:1",
        "settings.json:10:7",
        "settings.json:39:5",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("[]", "a list"),
        ("7", "7 (a number)"),
        ("{", "double quotes"),
        ('{"gate_config": {}} x', "nothing may follow"),
        ("\x00", "value"),
    ],
)
def test_a_file_that_holds_no_mapping(text: str, words: str) -> None:
    _, errors, _ = examined(settings=text)
    assert words in errors[0]
    assert errors[0].startswith("settings.json:1:")


def test_a_bomb_of_brackets_is_told_and_not_a_crash() -> None:
    for bomb in ('{"a":' * 100_000, "[" * 100_000, "{" * 50):
        _, errors, _ = examined(settings=bomb)
        assert errors
    _, errors, _ = examined(settings="a: " + "[" * 2000, names=("settings.yaml", "config.toml"))
    assert errors
