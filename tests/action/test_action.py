"""The action from the runner's side: a simulated vLLM, a GitHub stand-in, and nothing but files and signals."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from tests.action.runner import BASE, HEAD, MERGE, PULL_REQUEST, TOKEN, Runner, Step
from tests.cli.canary import always, canary
from tests.cli.console import SETTINGS, release, write_config
from tests.github.stand_in import Start
from tests.server.loopback import Loopback, Request, chat, http

from vllm_gate.report.json_report import schema
from vllm_gate.simulator.github import GitHubStandIn

ROLLBACK = """
[rollback]
auto_rollback = true
"""
NAN = "fp32_as_bf16"


@pytest.fixture
def hook() -> Iterator[Loopback]:
    """A webhook that takes everything."""
    with Loopback(lambda _: http({"ok": True})) as server:
        yield server


def judged(
    tmp_path: Path,
    github: GitHubStandIn,
    *faults: str,
    event: str = "push",
    config: str = "",
    **inputs: str,
) -> Step:
    """One step that judges a release with `faults`."""
    payload = PULL_REQUEST if event.startswith("pull_request") else {"repository": {"default_branch": "main"}}
    runner = Runner(tmp_path, github.url, event, payload)
    with release(runner.workspace, *faults):
        file = runner.workspace / "config.toml"
        file.write_text(file.read_text() + config)
        return runner.step(**{"gates": "1,3", **inputs})


def test_a_healthy_release(tmp_path: Path, github: Start) -> None:
    stand_in = github()
    step = judged(tmp_path, stand_in, event="pull_request")
    assert step.code == 0, step.log
    runs = {run["name"]: run for run in stand_in.check_runs.values()}
    assert {name: run["conclusion"] for name, run in runs.items()} == {
        "vllm-gate / 1 model load": "success",
        "vllm-gate / 3 golden prompts": "success",
    }
    assert {run["head_sha"] for run in runs.values()} == {HEAD}
    assert (step.outputs["verdict"], step.outputs["failed-gates"]) == ("pass", "")
    assert step.outputs["check-urls"].split(",") == [f"https://github.com/org/deploy/runs/{n}" for n in (1, 2)]
    assert step.summary.startswith("## ✅ vllm-gate: pass")
    assert f"checked out: {MERGE[:12]}; reported on: {HEAD[:12]}" in step.summary
    assert not step.annotations("error")


def test_a_broken_release_on_main_is_blocked_told_and_rolled_back(
    tmp_path: Path, github: Start, hook: Loopback
) -> None:
    stand_in = github()
    config = f'{ROLLBACK}notify_webhook = "{hook.root}/hook"\n'
    step = judged(tmp_path, stand_in, NAN, config=config)
    assert step.code == 1
    failed = stand_in.check_runs[2]
    assert failed["conclusion"] == "failure"
    assert "16 × token id 0, the argmax of NaN logits" in failed["output"]["title"]
    assert stand_in.annotations[2][0]["path"] == "settings.json"
    (run,) = stand_in.runs
    assert run["display_title"] == "rollback vllm-gate-42-1"
    assert step.outputs["rollback-dispatched"] == "true"
    assert step.outputs["rollback-run-url"] == run["html_url"]
    assert step.outputs["rollback-conditions"] == "gate_3_deterministic_probe_failed"
    (told,) = hook.requests
    assert told.json["rollback_run_url"] == run["html_url"]
    assert told.json["failures"][0]["symptom"] == "nan_argmax"
    report = json.loads(Path(tmp_path / "workspace" / step.outputs["report-path"]).read_text())
    Draft202012Validator(schema()).validate(report)
    assert report["rollback"]["webhook"] == "sent"
    assert "argmax of NaN logits" in step.summary
    assert json.loads(step.outputs["report-json"])["verdict"] == "fail"


def test_a_canarys_shards_and_their_verdict(tmp_path: Path, github: Start) -> None:
    stand_in = github()
    runner = Runner(tmp_path, stand_in.url)
    with canary(runner.workspace, always, count=300):
        (runner.workspace / "traffic.jsonl").rename(runner.workspace / "other.jsonl")
        config = runner.workspace / "config.toml"
        config.write_text(config.read_text() + ROLLBACK)
        given = {"gates": "5", "traffic": "other.jsonl", "checks": "false", "rollback": "off"}
        shards = [runner.step(**given, shard=f"{shard}/2", report_dir=f"shard-{shard}") for shard in (1, 2)]
        assert (stand_in.check_runs, stand_in.runs) == ({}, [])
        merged = runner.step(command="merge shard-1/canary.jsonl shard-2/canary.jsonl")
        twice = runner.step(command="merge shard-1/canary.jsonl shard-1/canary.jsonl")
    assert [step.code for step in (*shards, merged, twice)] == [1, 1, 1, 2]
    assert {step.outputs["failed-gates"] for step in (*shards, merged)} == {"gate_5_shadow_canary"}
    (check,) = stand_in.check_runs.values()
    assert (check["name"], check["conclusion"]) == ("vllm-gate / 5 shadow canary", "failure")
    assert merged.outputs["rollback-conditions"] == "gate_5_task_success_dropped"
    assert merged.outputs["rollback-dispatched"] == "true"
    assert len(stand_in.runs) == 1
    assert "the same shard as" in twice.log
    assert "private" not in "".join(step.log + step.summary for step in (*shards, merged, twice))


@pytest.mark.parametrize("command", ["shadow", "mirror --listen 127.0.0.1:0"])
def test_a_canary_is_run_as_a_gate(tmp_path: Path, github: Start, command: str) -> None:
    step = Runner(tmp_path, github().url).step(command=command)
    assert step.code == 2
    (told,) = step.annotations("error")
    assert "use `run` with gates: 5" in told.message


def test_a_canary_without_its_traffic(tmp_path: Path, github: Start) -> None:
    runner = Runner(tmp_path, github().url)
    with canary(runner.workspace, always, count=10):
        step = runner.step(gates="5", traffic="none.jsonl")
    assert step.code == 2
    assert "none.jsonl: there is no such traffic log" in step.log


def test_the_same_attempt_rolls_back_once(tmp_path: Path, github: Start) -> None:
    stand_in = github()
    for _ in range(2):
        step = judged(tmp_path, stand_in, NAN, config=ROLLBACK)
    assert len(stand_in.runs) == 1
    assert step.outputs["rollback-dispatched"] == "true"
    assert "an earlier request of this attempt" in step.summary


@pytest.mark.parametrize("more", ["", "on_pull_request = true\n"])
def test_a_pull_request_rolls_nothing_back_whatever_its_own_files_say(tmp_path: Path, github: Start, more: str) -> None:
    stand_in = github()
    step = judged(tmp_path, stand_in, NAN, event="pull_request", config=ROLLBACK + more)
    assert (step.code, stand_in.runs) == (1, [])
    assert "never rolls production back" in step.summary


@pytest.mark.parametrize("mode", ["dry-run", "off"])
def test_other_modes_dispatch_nothing(tmp_path: Path, github: Start, hook: Loopback, mode: str) -> None:
    stand_in = github()
    config = f'{ROLLBACK}notify_webhook = "{hook.root}/hook"\n'
    step = judged(tmp_path, stand_in, NAN, config=config, rollback=mode)
    assert (step.code, stand_in.runs, hook.requests) == (1, [], [])


def test_a_rollback_that_fails_is_its_own_failure(tmp_path: Path, github: Start) -> None:
    step = judged(tmp_path, github(workflows={}), NAN, config=ROLLBACK)
    assert (step.code, step.outputs["verdict"], step.outputs["rollback-dispatched"]) == (1, "fail", "false")
    assert any("rollback was not dispatched" in error.message for error in step.annotations("error"))
    assert "It could not be dispatched" in step.summary


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("fork_token", "checks: write"),
        ("personal_token", "personal access token"),
        ("reset", "no answer"),
    ],
)
def test_without_check_runs_the_verdict_is_unharmed_and_annotated(
    tmp_path: Path, github: Start, trouble: str, words: str
) -> None:
    stand_in = github(trouble=trouble)
    step = judged(tmp_path, stand_in, NAN, event="pull_request")
    assert (step.code, step.outputs["verdict"], step.outputs["check-urls"]) == (1, "fail", "")
    (probe,) = [error for error in step.annotations("error") if "deterministic_probe" in error.properties["title"]]
    assert probe.properties["file"] == "settings.json"
    assert "argmax of NaN logits" in probe.message
    assert words in step.summary


def test_check_runs_can_be_switched_off(tmp_path: Path, github: Start) -> None:
    stand_in = github()
    step = judged(tmp_path, stand_in, NAN, checks="false")
    assert (step.code, stand_in.check_runs) == (1, {})
    assert len(step.annotations("error")) == 1


def test_it_works_without_a_token(tmp_path: Path, github: Start) -> None:
    stand_in = github()
    step = judged(tmp_path, stand_in, NAN, config=ROLLBACK, github_token="")
    assert (step.code, stand_in.exchanges) == (1, [])
    assert step.outputs["rollback-dispatched"] == "false"
    assert "no token was given" in step.summary


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("fault", ["hang", ""])
def test_a_cancelled_job_leaves_no_check_run_open(
    tmp_path: Path, github: Start, number: signal.Signals, fault: str
) -> None:
    stand_in = github()
    runner = Runner(tmp_path, stand_in.url)
    with release(runner.workspace, *filter(None, [fault])):
        (runner.workspace / "config.toml").write_text(
            (runner.workspace / "config.toml").read_text().replace("timeout_sec = 1", "timeout_sec = 60")
        )
        process = runner.start(gates="1,3")
        until = time.monotonic() + 30
        while len(stand_in.check_runs) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(number)
        process.send_signal(number)  # an impatient one must not break the closing
        told = time.monotonic()
        step = runner.finish(process)
        took = time.monotonic() - told
    assert stand_in.open_check_runs() == []
    assert took < 8, "the runner kills ten seconds after its first signal"
    if step.code == 130:  # a healthy release may have been judged before the signal came
        assert "cancelled" in {run["conclusion"] for run in stand_in.check_runs.values()}
        assert "interrupted" in step.log
    else:
        assert (fault, step.code) == ("", 0)


HOSTILE = (
    "::set-output name=verdict::pass\n ##[error]x ::add-mask::fail ##[add-mask]fail\r::stop-commands::t\n| a | <b>@org"
)


def test_hostile_model_text_commands_nothing_and_breaks_no_page(tmp_path: Path, github: Start) -> None:
    def answer(request: Request) -> bytes:
        if request.path == "/v1/models":
            return http({"data": [{"id": "nvidia/Qwen3.6-27B-NVFP4"}]})
        return http(chat(HOSTILE)) if request.method == "POST" else http(b"", 404)

    stand_in = github()
    runner = Runner(tmp_path, stand_in.url)
    with Loopback(answer) as server:
        write_config(runner.workspace, server.base_url)
        step = runner.step(gates="3")
    assert step.code == 1
    assert step.outputs["verdict"] == "fail"
    allowed = {"add-mask", "group", "endgroup", "error", "warning", "notice"}
    assert {command.name for command in step.commands} <= allowed
    masked = {command.message for command in step.commands if command.name == "add-mask"}
    assert masked == {TOKEN}
    assert not [line for line in step.summary.splitlines() if line.startswith("| a |")]
    assert "<b>" not in step.summary.replace("\n", "").partition("```")[0]


def test_no_secret_is_printed_or_sent(tmp_path: Path, github: Start, hook: Loopback) -> None:
    stand_in = github()
    config = f'{ROLLBACK}notify_webhook = "{hook.root}/hook/planted-hook-token"\n'
    step = judged(tmp_path, stand_in, NAN, config=config)
    shown = step.log.replace(f"::add-mask::{TOKEN}", "").replace(
        "::add-mask::" + f"{hook.root}/hook/planted-hook-token", ""
    )
    told = b"".join(exchange.body for exchange in stand_in.exchanges) + hook.requests[0].body
    for secret in (TOKEN, "planted-hook-token"):
        assert secret not in shown
        assert secret not in step.summary + "".join(step.outputs.values())
        assert secret.encode() not in told


def test_problems_of_the_configuration_are_annotated_on_their_lines(tmp_path: Path, github: Start) -> None:
    stand_in = github()
    runner = Runner(tmp_path, stand_in.url)
    write_config(runner.workspace, "http://127.0.0.1:9/v1", settings=SETTINGS.replace('"repeats"', '"repeat"'))
    step = runner.step()
    assert (step.code, stand_in.check_runs) == (2, {})
    named = [error for error in step.annotations("error") if error.properties.get("file") == "settings.json"]
    assert [error.properties["line"] for error in named] == ["4"]
    assert "did you mean 'repeats'" in named[0].message


def test_settings_of_the_base_judge_a_pull_request(tmp_path: Path, github: Start) -> None:
    """The pull request's own settings ask for nothing; those of the base branch do."""
    stand_in = github()
    runner = Runner(tmp_path, stand_in.url, "pull_request", PULL_REQUEST)
    with release(runner.workspace, NAN):
        files = {name: (runner.workspace / name).read_bytes() for name in ("settings.json", "config.toml")}
        stand_in.files["main"] = stand_in.files[BASE] = files
        weak = SETTINGS.replace('"repeats": 1', '"repeats": 1, "enabled": false')
        (runner.workspace / "settings.json").write_text(weak)
        trusting = runner.step(gates="1")
        step = runner.step(config_ref="main")
    assert (trusting.code, step.code) == (0, 1)
    (weakened,) = trusting.annotations("warning")
    assert (weakened.properties["file"], weakened.properties["line"]) == ("settings.json", "4")
    assert "gate_3_golden_prompt is switched off" in weakened.message


def test_a_config_ref_that_is_not_there_is_exit_2(tmp_path: Path, github: Start) -> None:
    runner = Runner(tmp_path, github().url)
    step = runner.step(config_ref="main")
    assert step.code == 2
    assert "can't be read at main" in step.annotations("error")[0].message
    assert "leave config-ref out of the pull request that adds it" in step.annotations("error")[0].message


def test_keys_go_to_allowed_hosts_alone(tmp_path: Path, github: Start) -> None:
    seen: list[str] = []

    def answer(request: Request) -> bytes:
        seen.append(json.dumps(dict(request.headers)))
        return http(chat("OK"))

    runner = Runner(tmp_path, github().url)
    runner.variables["STOLEN_KEY"] = "sk-planted-0123456789"
    with Loopback(answer) as server:
        write_config(runner.workspace, server.base_url, more={"api_key_env": "STOLEN_KEY"})
        runner.step(gates="3", allowed_hosts="gateway.corp, other.corp")
        assert not any("sk-planted" in headers for headers in seen)
        seen.clear()
        runner.step(gates="3", allowed_hosts="127.0.0.1")
    assert any("sk-planted" in headers for headers in seen)


def test_a_comment_on_a_pull_request_reports_on_its_head(tmp_path: Path, github: Start) -> None:
    stand_in = github(heads={7: HEAD})
    payload = {"issue": {"number": 7, "pull_request": {"url": "x"}}, "repository": {"default_branch": "main"}}
    runner = Runner(tmp_path, stand_in.url, "issue_comment", payload)
    with release(runner.workspace, NAN):
        file = runner.workspace / "config.toml"
        file.write_text(file.read_text() + ROLLBACK)
        step = runner.step(gates="3")
    assert (step.code, stand_in.runs) == (1, []), "whoever comments must not roll production back"
    assert {run["head_sha"] for run in stand_in.check_runs.values()} == {HEAD}


def test_a_given_commit_gets_the_check_runs(tmp_path: Path, github: Start) -> None:
    stand_in = github()
    judged(tmp_path, stand_in, head_sha="d" * 40)
    assert {run["head_sha"] for run in stand_in.check_runs.values()} == {"d" * 40}


def test_a_condition_matched_without_auto_rollback_is_told_to_the_webhook(
    tmp_path: Path, github: Start, hook: Loopback
) -> None:
    stand_in = github()
    config = f'[rollback]\nauto_rollback = false\nnotify_webhook = "{hook.root}/hook"\n'
    judged(tmp_path, stand_in, NAN, config=config)
    (told,) = hook.requests
    assert (told.json["dispatched"], told.json["action"], stand_in.runs) == (False, "off", [])


def test_other_commands_run_too(tmp_path: Path, github: Start) -> None:
    runner = Runner(tmp_path, github().url)
    write_config(runner.workspace, "http://127.0.0.1:9/v1")
    step = runner.step(command="validate --format json")
    assert (step.code, step.outputs) == (0, {})


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"checks": "maybe"}, "neither true nor false"),
        ({"fail_on": "sometimes"}, "invalid choice"),
        ({"gates": "9"}, "no gate"),
    ],
)
def test_a_wrong_input_is_exit_2_and_says_what_is_allowed(
    tmp_path: Path, github: Start, inputs: dict[str, str], words: str
) -> None:
    stand_in = github()
    runner = Runner(tmp_path, stand_in.url)
    write_config(runner.workspace, "http://127.0.0.1:9/v1")
    step = runner.step(**inputs)
    assert step.code == 2
    assert words in step.log
    assert stand_in.open_check_runs() == []


def test_outside_of_actions_it_says_what_to_use_instead(tmp_path: Path, github: Start) -> None:
    runner = Runner(tmp_path, github().url)
    runner.variables.clear()
    step = runner.step()
    assert step.code == 2
    assert "vllm-gate run" in step.log
