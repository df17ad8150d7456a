"""What the files mean: defaults, formats, places, keys from the environment."""

import dataclasses
import json
import re
import tomllib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.config.example import CONFIG, SETTINGS, examined

from vllm_gate.config import plan as plans
from vllm_gate.config.document import Source, parse, walk
from vllm_gate.config.load import Sources, decode, examine, load, suite_path
from vllm_gate.config.plan import Plan
from vllm_gate.config.schema import load_schema
from vllm_gate.core.finding import Location
from vllm_gate.core.secret import Secret
from vllm_gate.errors import ConfigError, ExitCode, FileProblem


def loaded(**given: object) -> Plan:
    plan, errors, _ = examined(**given)  # type: ignore[arg-type]
    assert errors == []
    assert plan is not None
    return plan


def test_the_example_loads_as_it_stands() -> None:
    plan = loaded(environ={"VLLM_LOCAL_KEY": "local-key"})
    assert plan.services["under_test"].base_url == "http://127.0.0.1:8000/v1"
    assert plan.services["under_test"].api_key == Secret("local-key")
    assert plan.services["baseline"].api_key is None
    assert plan.gates.model_load.timeout_sec == 300
    assert plan.gates.numerical.compare_tp_variants == (1, 4)
    assert plan.gates.golden_prompt.expected_output == "OK"
    assert plan.gates.long_context.context_lengths == (4096, 16384, 32768)
    assert plan.gates.shadow_canary.task_success_drop_threshold == 0.03
    assert plan.matrix["allreduce_backend"] == "flashinfer-trtllm"
    assert plan.conditions[0] == "gate_3_deterministic_probe_failed"
    assert plan.rollback.notify_webhook == Secret("https://your-alert-endpoint/hook")


def test_the_same_keys_in_any_of_the_three_formats_make_the_same_plan() -> None:
    expected = dataclasses.replace(loaded(), locations={})
    as_yaml = yaml.safe_dump(json.loads(SETTINGS)), yaml.safe_dump(tomllib.loads(CONFIG))
    as_json = SETTINGS, json.dumps(tomllib.loads(CONFIG))
    for texts, names in ((as_yaml, ("s.yaml", "c.yml")), (as_json, ("s.json", "c.json"))):
        assert dataclasses.replace(loaded(settings=texts[0], config=texts[1], names=names), locations={}) == (expected)


def test_a_file_without_a_telling_extension_is_read_by_what_it_looks_like() -> None:
    loaded(names=("settings", "config"))


def test_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    plan = loaded(settings="\ufeff" + SETTINGS.replace("\n", "\r\n"), config=CONFIG.replace("\n", "\r\n"))
    assert plan.where("gate_config.gate_3_golden_prompt.expected_output") == Location("settings.json", 18, 7)
    assert plan.where("rollback.auto_rollback") == Location("config.toml", 23, 1)


def test_places_of_keys_and_of_their_nearest_ancestor() -> None:
    plan = loaded()
    assert plan.where("service.baseline.base_url") == Location("config.toml", 7, 1)
    assert plan.where("gate_config.gate_3_golden_prompt.suite") == Location("settings.json", 15, 5)
    assert plan.where("nothing.like.it") is None


def test_a_place_that_is_not_in_the_file_is_that_of_its_nearest_ancestor() -> None:
    assert parse(Source("x.toml", "\n[a]\nb = 1")).locate(("a", "c", 0)) == Location("x.toml", 2, 2)


def test_as_many_prompts_as_the_most_is_no_problem() -> None:
    loaded(settings=SETTINGS.replace("[1, 4]", '[1, 4], "prompts": 50, "max_prompts": 50'))


TOML_PLACES = """\
# a comment with [brackets] and key = value
title = "a # that is no comment" # one that is
dotted."quo.ted".'lit' = [ 1, # first
  [2, 3], { a = 1, b = "}]" } ]
text = \"\"\"
[not.a.table]
key = "x"
\"\"\"
date = 2026-12-01T10:00:00Z
[ spaced . table ]
inline = { x = { y = "z" } }
[[array]]
name = "one"
[[array]]
name = "two"
[array.sub]
deep = true
"""


@pytest.mark.parametrize(
    ("route", "place"),
    [
        (("title",), (2, 1)),
        (("dotted",), (3, 1)),
        (("dotted", "quo.ted"), (3, 8)),
        (("dotted", "quo.ted", "lit"), (3, 18)),
        (("dotted", "quo.ted", "lit", 0), (3, 28)),
        (("dotted", "quo.ted", "lit", 1), (4, 3)),
        (("dotted", "quo.ted", "lit", 1, 1), (4, 7)),
        (("dotted", "quo.ted", "lit", 2, "b"), (4, 20)),
        (("text",), (5, 1)),
        (("date",), (9, 1)),
        (("spaced", "table"), (10, 12)),
        (("spaced", "table", "inline", "x", "y"), (11, 18)),
        (("array", 0, "name"), (13, 1)),
        (("array", 1, "name"), (15, 1)),
        (("array", 1, "sub", "deep"), (17, 1)),
    ],
)
def test_places_in_toml(route: tuple[str | int, ...], place: tuple[int, int]) -> None:
    document = parse(Source("x.toml", TOML_PLACES))
    assert document.places[route] == place


def test_every_value_of_a_toml_file_has_a_place() -> None:
    for text in (TOML_PLACES, CONFIG):
        document = parse(Source("x.toml", text))
        assert {route for route, _ in walk(document.values) if route} <= set(document.places)


def test_a_gate_that_is_left_out_is_not_asked() -> None:
    plan = loaded(settings='{"gate_config": {"gate_3_golden_prompt": {}}}')
    assert plan.gates.golden_prompt.enabled
    assert not plan.gates.model_load.enabled


def test_tp_variants_are_services_of_their_own() -> None:
    more = '\n[service.tp.1]\nsnapshot = "tp1.snapshot"\n[service.tp.2]\nbase_url = "http://h/v1"\nmodel = "m"\n'
    plan = loaded(config=CONFIG + more)
    assert plan.services["tp.1"].snapshot == "tp1.snapshot"
    assert plan.services["tp.2"].base_url == "http://h/v1"


def test_whole_numbers_and_fractions_mix_as_json_allows() -> None:
    changed = SETTINGS.replace('"max_tokens": 16', '"max_tokens": 16.0').replace(
        '"timeout_sec": 300', '"timeout_sec": 9'
    )
    plan = loaded(settings=changed)
    assert type(plan.gates.golden_prompt.max_tokens) is int
    assert type(plan.gates.model_load.timeout_sec) is float


def test_whole_numbers_in_lists_and_in_the_matrix_stay_whole() -> None:
    plan = loaded(settings=SETTINGS.replace("[1, 4]", "[1.0, 4e0]"), config=CONFIG.replace("= 4", "= 4.0"))
    assert [str(size) for size in plan.gates.numerical.compare_tp_variants] == ["1", "4"]
    assert str(plan.matrix["parallelism_tp"]) == "4"


def test_unset_variables_dead_conditions_and_missing_services_are_warnings() -> None:
    off = SETTINGS.replace(
        '"gate_3_golden_prompt": {\n      "enabled": true', '"gate_3_golden_prompt": {"enabled": false'
    )
    plan, errors, warnings = examined(settings=off, environ={"TAOTOKEN_API_KEY": "k"})
    assert plan
    assert errors == []
    assert [warning.partition(": warning")[0] for warning in warnings] == [
        "config.toml:4:1",
        "settings.json:13:31",
        "settings.json:28:5",
        "settings.json:36:5",
    ]
    assert "VLLM_LOCAL_KEY is not set" in warnings[0]
    assert "add [service.tp.1]" in warnings[1]
    assert "there is no traffic to replay" in warnings[2]
    assert "can never match" in warnings[3]


def test_a_size_with_a_service_of_its_own_or_the_declared_one_is_no_warning() -> None:
    more = '\n[service.tp.1]\nsnapshot = "tp1.snapshot"\n'
    assert not any("[service.tp." in warning for warning in examined(config=CONFIG + more)[2])
    undeclared = CONFIG.replace("parallelism_tp = 4\n", "") + more
    told = [warning for warning in examined(config=undeclared)[2] if "[service.tp." in warning]
    assert [warning.partition(": warning")[0] for warning in told] == ["settings.json:13:34"]


def test_a_comparison_without_a_baseline_is_a_warning_at_its_gate() -> None:
    alone = '[service.under_test]\nbase_url = "http://h/v1"\nmodel = "m"\n'
    plan, _, warnings = examined(config=alone)
    assert plan
    told = [warning for warning in warnings if "add [service.baseline]" in warning]
    assert [warning.partition(": warning")[0] for warning in told] == ["settings.json:8:5", "settings.json:29:5"]


def test_a_run_that_would_ask_nothing_is_a_warning() -> None:
    plan, errors, warnings = examined(settings='{"gate_config": {"gate_3_golden_prompt": {"enabled": false}}}')
    assert plan
    assert errors == []
    assert any("every gate is switched off" in warning for warning in warnings)


def test_an_empty_variable_is_an_unset_one() -> None:
    assert loaded(environ={"VLLM_LOCAL_KEY": ""}).services["under_test"].api_key is None


def test_blanks_around_a_key_in_the_environment_are_no_part_of_it() -> None:
    services = loaded(environ={"VLLM_LOCAL_KEY": "key\n", "TAOTOKEN_API_KEY": " \n"}).services
    assert services["under_test"].api_key == Secret("key")
    assert services["baseline"].api_key is None


def test_a_variable_that_holds_no_address_is_refused_without_repeating_it() -> None:
    config = CONFIG.replace('notify_webhook = "https://your-alert-endpoint/hook"', 'notify_webhook_env = "HOOK"')
    plan, errors, _ = examined(config=config, environ={"HOOK": "hooks.example/hunter2"})
    assert plan is None
    assert errors == [
        "config.toml:24:1: error: rollback.notify_webhook_env: the variable named here holds no http(s) address"
    ]


def test_load_raises_one_error_that_lists_them_all() -> None:
    sources = Sources(settings=Source("s.json", "{}"), config=Source("c.toml", "x = 1"))
    with pytest.raises(ConfigError) as raised:
        load(sources, {}, [])
    assert raised.value.exit_code is ExitCode.USAGE
    assert "3 problems" in str(raised.value)
    assert "s.json:1:1" in str(raised.value)
    assert "c.toml:1:1: error: x: unknown key 'x'" in str(raised.value)


def test_text_that_is_not_utf_8_names_the_line() -> None:
    with pytest.raises(FileProblem, match=r"s\.json:2:1: not UTF-8 text \(byte 0xff\)"):
        decode("s.json", b"{\n\xff}")


@given(st.binary(max_size=20))
def test_any_bytes_become_text_or_are_told_with_a_place(content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError:
        with pytest.raises(FileProblem, match=r"^s\.json:\d+:\d+: not UTF-8"):
            decode("s.json", content)
    else:
        assert decode("s.json", content).text.encode() == content


def test_the_path_of_the_suite_is_read_even_from_a_broken_file() -> None:
    text = '{"gate_config": {"gate_3_golden_prompt": {"suite": "golden.yaml", "nonsense": 1}}}'
    assert suite_path(Source("s.json", text)) == "golden.yaml"
    assert suite_path(Source("s.json", "{")) == ""
    assert suite_path(Source("s.json", '{"gate_config": 3}')) == ""


@pytest.mark.parametrize("name", ["settings.schema.json", "config.schema.json", "golden.schema.json"])
def test_the_shipped_schemas_are_valid_and_describe_every_key(name: str) -> None:
    schema = load_schema(name)
    Draft202012Validator.check_schema(schema)

    def undescribed(node: object, path: str) -> list[str]:
        found: list[str] = []
        if isinstance(node, dict):
            for key, value in node.get("properties", {}).items():
                described = "description" in value or "properties" in value or "$ref" in value
                found += (
                    [] if described or key in ("messages", "cases", "role", "name", "arguments") else [f"{path}.{key}"]
                )
                found += undescribed(value, f"{path}.{key}")
            for value in [node.get("items"), *node.get("$defs", {}).values()]:
                found += undescribed(value, path)
        return found

    assert undescribed(schema, "") == []


@pytest.mark.parametrize(
    ("record", "gate"),
    [
        (plans.ModelLoadSettings, "gate_1_model_load"),
        (plans.NumericalSettings, "gate_2_numerical"),
        (plans.GoldenPromptSettings, "gate_3_golden_prompt"),
        (plans.LongContextSettings, "gate_4_long_context"),
        (plans.ShadowCanarySettings, "gate_5_shadow_canary"),
    ],
)
def test_schema_and_plan_agree_on_keys_and_defaults(record: type, gate: str) -> None:
    properties = load_schema("settings.schema.json")["properties"]["gate_config"]["properties"][gate]["properties"]
    defaults = json.loads(json.dumps(dataclasses.asdict(record())))
    assert {key: value["default"] for key, value in properties.items()} == defaults


def test_schema_and_plan_agree_on_the_defaults_of_services_and_rollback() -> None:
    schema = load_schema("config.schema.json")
    service = {field.name: field.default for field in dataclasses.fields(plans.ServiceConfig)}
    assert set(service) == {*schema["$defs"]["service"]["properties"], "name", "api_key"}
    for key, value in schema["$defs"]["service"]["properties"].items():
        assert value.get("default", "") == service[key]
    rollback = schema["properties"]["rollback"]["properties"]
    written = {key: value["default"] for key, value in rollback.items() if "default" in value}
    assert plans.RollbackSettings() == plans.RollbackSettings(webhook_format=written.pop("format"), **written)
    assert set(written) == {"auto_rollback", "workflow", "ref", "on_pull_request"}


def test_the_webhook_may_come_from_the_environment() -> None:
    config = CONFIG.replace(
        'notify_webhook = "https://your-alert-endpoint/hook"',
        'notify_webhook_env = "HOOK"\nwebhook_secret_env = "SIGN"\nformat = "slack"\nworkflow = "back.yml"',
    )
    rollback = loaded(config=config, environ={"HOOK": "https://hooks.example/T0", "SIGN": "s"}).rollback
    assert rollback.notify_webhook == Secret("https://hooks.example/T0")
    assert rollback.webhook_secret == Secret("s")
    assert (rollback.webhook_format, rollback.workflow, rollback.auto_rollback) == ("slack", "back.yml", True)
    _, _, warnings = examined(config=config)
    assert any("nobody is told of a rollback" in warning for warning in warnings)
    assert any("the webhook is not signed" in warning for warning in warnings)


SUITE = """\
cases:
  - id: capital
    prompt: What is the capital of France?
    expect: {contains: Paris}
  - id: sum
    messages: [{role: user, content: What is 2+2}]
    max_tokens: 4
    temperature: 0.5
    expect: {one_of: ["4", four]}
"""


def test_a_schema_in_a_suite_may_refer_to_itself() -> None:
    schema = "{$defs: {n: {type: integer}}, properties: {a: {$ref: '#/$defs/n'}, $ref: {type: string}}}"
    (first, _) = loaded(suite=SUITE.replace("{contains: Paris}", f"{{json_schema: {schema}}}")).golden_cases
    assert first.expect.value["properties"]["a"] == {"$ref": "#/$defs/n"}


def test_a_suite_becomes_cases_with_their_places() -> None:
    first, second = loaded(suite=SUITE).golden_cases
    assert first.messages == ({"role": "user", "content": "What is the capital of France?"},)
    assert (first.expect.kind, first.expect.value, first.max_tokens) == ("contains", "Paris", 64)
    assert first.location == Location("golden.yaml", 2, 5)
    assert (first.options, second.options) == ({}, {"temperature": 0.5})
    assert (second.expect.kind, second.expect.value, second.max_tokens) == ("one_of", ("4", "four"), 4)


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("contains: Paris", "contain: Paris", "4:14", "did you mean 'contains'"),
        ("contains: Paris", "contains: Paris, exact: x", "4:5", "at most 1"),
        ("{contains: Paris}", "{regex: '('}", "4:14", "not a regular expression"),
        ("{contains: Paris}", "{json_schema: {type: 7}}", "4:14", "not a JSON Schema"),
        ("{contains: Paris}", "{tool_call: {name: f}}", "4:14", "has no tools"),
        ("{contains: Paris}", "{}", "4:5", "at least 1"),
        ("{contains: Paris}", "{regex: 'a{99999999999}'}", "4:14", "not a regular expression"),
        ("{contains: Paris}", "{json_schema: {$ref: 'http://h/x'}}", "4:14", "other documents are not fetched"),
        ("{contains: Paris}", "{json_schema: {items: {$ref: '#/$defs/a'}}}", "4:14", "nothing in this schema"),
        ("{contains: Paris}", "{exact: yes}", "4:14", "put it in double quotes"),
        ("{contains: Paris}", "{exact: 2026-12-01}", "4:14", "2026-12-01 (a date)"),
        (
            "expect: {contains: Paris}",
            "tools: [{type: function, function: {name: weather}}]\n    expect: {tool_call: {name: wether}}",
            "5:14",
            "did you mean 'weather'",
        ),
        ("id: sum", "id: capital", "5:5", "taken by the case at golden.yaml:2:5"),
        ("id: sum", "id: 'a b'", "5:5", "not of the form"),
        ("    prompt: What is the capital of France?\n", "", "2:5", "exactly one of 'prompt' or 'messages'"),
        ("cases:", "case:", "1:1", "did you mean 'cases'"),
        ("max_tokens: 4", "max_tokens: 4\n    max_tokens: 5", "8:5", "twice"),
    ],
)
def test_a_broken_suite(old: str, new: str, place: str, words: str) -> None:
    assert old in SUITE
    plan, errors, _ = examined(suite=SUITE.replace(old, new))
    assert plan is None
    assert any(error.startswith(f"golden.yaml:{place}: error") and words in error for error in errors), errors


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.sampled_from(["s.json", "s.toml", "s.yaml", "s"]))
def test_every_problem_of_any_text_has_a_place(text: str, name: str) -> None:
    source = Source(name, text)
    _, diagnostics = examine(Sources(settings=source, config=source, suite=source), {}, [])
    assert diagnostics
    assert all(re.match(r"s[.a-z]*:\d+:\d+: (error|warning): ", str(diagnostic)) for diagnostic in diagnostics)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["s.json", "s.toml", "s.yaml", "s"]))
def test_any_text_is_told_and_never_a_crash(text: str, name: str) -> None:
    document = parse(Source(name, text))
    assert document.values is None or isinstance(document.values, dict)
    assert document.values is not None or document.problems


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(SETTINGS)), st.integers(0, 12), st.text(max_size=3))
def test_any_edit_of_the_example_loads_or_is_told(at: int, cut: int, insert: str) -> None:
    edited = SETTINGS[:at] + insert + SETTINGS[at + cut :]
    try:
        load(Sources(settings=Source("settings.json", edited), config=Source("config.toml", CONFIG)), {}, [])
    except ConfigError as error:
        told = str(error)
    else:
        return
    assert "settings.json:" in told


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(CONFIG)), st.integers(0, 12), st.text(max_size=3))
def test_any_edit_of_a_toml_file_loads_or_is_told(at: int, cut: int, insert: str) -> None:
    edited = CONFIG[:at] + insert + CONFIG[at + cut :]
    document = parse(Source("config.toml", edited))
    if document.values is None:
        assert document.problems
    else:
        assert {route for route, _ in walk(document.values) if route} <= set(document.places)
