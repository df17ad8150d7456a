"""docs/configuration.md and the starter files, held against the schemas: text drifts silently, tests do not."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tests.config.example import CONFIG, EXAMPLE, SETTINGS, examined

from vllm_gate.config.schema import load_schema

DOCUMENT = (EXAMPLE.parent.parent / "docs" / "configuration.md").read_text(encoding="utf-8")
STARTER = files("vllm_gate.config").joinpath("starter")


def tables() -> dict[str, dict[str, Any]]:
    """Heading in the document to the schema whose keys its table lists."""
    settings, config = load_schema("settings.schema.json")["properties"], load_schema("config.schema.json")
    case = load_schema("golden.schema.json")["properties"]["cases"]["items"]
    return {
        **settings["gate_config"]["properties"],
        "validators": settings["gate_config"]["properties"]["gate_5_shadow_canary"]["properties"]["validators"][
            "items"
        ],
        "rollback_conditions": {"properties": {"rollback_conditions": settings["rollback_conditions"]}},
        "[service.NAME]": config["$defs"]["service"],
        "[matrix]": config["properties"]["matrix"],
        "[traffic]": config["properties"]["traffic"],
        "[rollback]": config["properties"]["rollback"],
        "Golden prompts": case,
        "expect": case["properties"]["expect"],
    }


def row(key: str, schema: dict[str, Any], required: list[str]) -> str:
    default = f"`{json.dumps(schema['default'])}`" if "default" in schema else "required" if key in required else ""
    return f"| `{key}` | {kind(schema)} | {default} | {schema['description'].replace('|', chr(92) + '|')} |"


def kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "items" in schema:
        also = "string or " if "string" in schema["type"] else ""
        return f"{also}list: {kind(schema['items'])}"
    wanted = schema["type"] if isinstance(schema["type"], str) else " or ".join(schema["type"])
    limits = [
        f"{words} {schema[name]}"
        for name, words in (("exclusiveMinimum", "above"), ("minimum", "at least"), ("maximum", "at most"))
        if name in schema
    ]
    return ", ".join([wanted, *limits])


def section(heading: str) -> str:
    found = re.search(rf"^#+ `?{re.escape(heading)}`?$\n(.*?)(?=^#|\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert found, f"docs/configuration.md has no section {heading}"
    return found[1]


@pytest.mark.parametrize("heading", tables())
def test_each_section_lists_every_key_with_its_type_default_and_meaning(heading: str) -> None:
    schema = tables()[heading]
    expected = [row(key, value, schema.get("required", [])) for key, value in schema["properties"].items()]
    assert [line for line in section(heading).splitlines() if line.startswith("| `")] == expected


def test_the_document_shows_the_example_as_it_stands() -> None:
    blocks = re.findall(r"```(json|toml)\n(.*?)```", DOCUMENT, re.DOTALL)
    assert ("json", SETTINGS) in blocks
    assert ("toml", CONFIG) in blocks


def test_the_golden_prompts_shown_are_a_valid_suite() -> None:
    (suite,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    plan, errors, _ = examined(suite=suite)
    assert errors == []
    assert plan
    assert {case.expect.kind for case in plan.golden_cases} >= {"contains", "json_schema", "tool_call"}


def test_the_starter_files_are_valid_and_only_lack_what_is_the_users() -> None:
    texts = {name: STARTER.joinpath(name).read_text() for name in ("settings.json", "config.toml", "golden.yaml")}
    plan, errors, warnings = examined(texts["settings.json"], texts["config.toml"], suite=texts["golden.yaml"])
    assert errors == []
    assert plan
    assert len(plan.golden_cases) == 2
    assert not plan.rollback.auto_rollback
    assert [re.search(r"VLLM_API_KEY|\[service\.baseline\]", warning) is not None for warning in warnings] == [True] * 2


def test_what_the_starter_config_comments_out_is_valid_too() -> None:
    text = STARTER.joinpath("config.toml").read_text()
    uncommented = re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.MULTILINE)
    plan, errors, _ = examined(STARTER.joinpath("settings.json").read_text(), uncommented)
    assert errors == []
    assert plan
    assert set(plan.services) == {"under_test", "baseline"}
    assert plan.matrix["parallelism_tp"] == 4


def test_the_document_names_only_files_that_exist() -> None:
    for path in re.findall(r"\]\((\.\./[^)#]+)", DOCUMENT):
        assert (Path(EXAMPLE.parent.parent) / "docs" / path).exists(), path
