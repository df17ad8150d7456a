"""Gate 4 on simulated servers: each fault has its own diagnosis, and a healthy server passes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from vllm_gate.app.observers import Quiet
from vllm_gate.app.run import Clock
from vllm_gate.app.runner import Selection, run_gates
from vllm_gate.app.services import connect_all
from vllm_gate.config.plan import Gates, LongContextSettings, Plan, ServiceConfig
from vllm_gate.core.finding import Finding
from vllm_gate.core.report import GateResult
from vllm_gate.core.verdict import Verdict
from vllm_gate.gates.capability.depth import places
from vllm_gate.gates.capability.json_cases import corpus
from vllm_gate.gates.capability.long_prompt import DEPTHS, build
from vllm_gate.gates.interface import Context, Gate
from vllm_gate.gates.long_context import CHECK_NAMES, LongContext
from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings
from vllm_gate.simulator.tokenizer import tokenizer

QUICK = LongContextSettings(context_lengths=(512, 2048), max_requests=12)

TOOLS_ALONE = replace(QUICK, context_lengths=(), max_requests=1, prefix_cache_check=False)


def ask(
    *faults: str,
    settings: LongContextSettings = QUICK,
    server: SimulatorSettings | None = None,
    baseline: Sequence[str] | None = None,
    api: str = "openai",
    observer: Quiet | None = None,
) -> GateResult:
    """`faults` and `baseline` are what is wrong with the two servers; without `baseline` there is none."""
    wanted = {"under_test": replace(server or SimulatorSettings(tp=1), faults=faults)}
    if baseline is not None:
        wanted["baseline"] = replace(server or SimulatorSettings(tp=1), faults=tuple(baseline))
    with ExitStack() as running:
        services = {
            name: ServiceConfig(
                name=name,
                base_url=running.enter_context(Simulator(one)).base_url,
                model=one.model,
                timeout_sec=60,
                api=api,
            )
            for name, one in wanted.items()
        }
        plan = Plan(services=services, gates=Gates(long_context=settings))
        context = Context(
            plan=plan,
            services=connect_all(plan, None),
            log=None,
            progress=lambda *_, **__: None,
            now=Clock().now,
            sleep=Clock().sleep,
            rng=np.random.default_rng(5),
        )
        (result,) = run_gates(Selection((LongContext(),), {}), context, observer or Quiet(), Clock().now)
    assert {finding.check for finding in result.findings} <= set(CHECK_NAMES)
    return result


def failures(result: GateResult) -> list[tuple[str, str]]:
    return [(f.check, f.symptom) for f in result.findings if f.verdict is Verdict.FAIL]


def only(result: GateResult, check: str) -> Finding:
    (finding,) = [finding for finding in result.findings if finding.check == check]
    return finding


def test_a_healthy_server_passes_every_check() -> None:
    result = ask()
    assert result.verdict is Verdict.PASS, failures(result)
    asked = {finding.check for finding in result.findings}
    assert asked == set(CHECK_NAMES)
    assert "a hit of" in only(result, "prefix_cache").message
    assert result.facts["json"] == {"valid": 12}


FAULTS = [
    ("needle_lost_after:1000", "context", "needle_lost"),
    ("garbage_beyond:1000", "context", "garbage"),
    ("edge_off_by_one:512", "context_edges", "edge"),
    ("json_truncated", "json", "json_truncated"),
    ("json_trailing_spaces", "json", "json_endless_blanks"),
    ("schema_ignored", "json", "schema_ignored"),
    ("int_as_string", "tools", "SchemaMismatch"),
    ("arg_dropped_in_stream", "tools", "InvalidJson"),
    ("call_in_text", "tools", "call_in_text"),
    ("parallel_merged", "tools", "parallel_merged"),
    ("cache_stale_block", "prefix_cache", "cache_changes_answer"),
    ("cache_never_hits", "prefix_cache", "cache_never_hits"),
    ("salt_ignored", "prefix_cache", "salt_ignored"),
]


@pytest.mark.parametrize(("fault", "check", "symptom"), FAULTS)
def test_each_fault_is_caught_with_its_own_diagnosis(fault: str, check: str, symptom: str) -> None:
    """A cache that never hits harms no answer, so it blocks by being undecided; every other one fails."""
    result = ask(fault)
    verdict = Verdict.INCONCLUSIVE if fault == "cache_never_hits" else Verdict.FAIL
    assert (verdict, check, symptom) in [(f.verdict, f.check, f.symptom) for f in result.findings]
    others = {(other, word) for _, other, word in FAULTS if (other, word) != (check, symptom)}
    # A stale block spoils whatever hits it, long answers too; a length that fails alone fails as a length as well.
    also = {("context", "garbage")} if fault in ("cache_stale_block", "edge_off_by_one:512") else set()
    assert others & {(f.check, f.symptom) for f in result.findings} <= also


@pytest.mark.parametrize("fault", ["cache_stale_block", "only_under_load:2"])
def test_requests_that_share_a_prefix_at_once_are_compared_with_each_alone(fault: str) -> None:
    assert ("shared_prefix", "shared_prefix_changes_answer") in failures(ask(fault))


@pytest.mark.parametrize("fault", ["int_as_string", "call_in_text", "parallel_merged"])
def test_tool_faults_that_the_baseline_has_as_well_block_nothing_and_are_told(fault: str) -> None:
    finding = only(ask(fault, baseline=[fault], settings=TOOLS_ALONE), "tools")
    assert finding.verdict is Verdict.PASS
    assert "the baseline has the same faults" in finding.warning


def test_a_tool_fault_that_is_new_blocks_although_the_baseline_has_another() -> None:
    finding = only(ask("int_as_string", "call_in_text", baseline=["int_as_string"], settings=TOOLS_ALONE), "tools")
    assert (finding.verdict, finding.symptom) == (Verdict.FAIL, "call_in_text")


def test_json_that_the_baseline_gets_wrong_as_well_is_told_beside_the_threshold() -> None:
    """The threshold in settings.json is the user's own, so it decides; the baseline says whose fault it is."""
    finding = only(ask("json_truncated", baseline=["json_truncated"], settings=TOOLS_ALONE), "json")
    assert finding.verdict is Verdict.FAIL
    assert "the baseline answers 0 of 1 of the same questions validly" in finding.message


@pytest.mark.parametrize(
    ("baseline", "verdict"), [(None, Verdict.PASS), (["json_truncated"], Verdict.PASS), ([], Verdict.FAIL)]
)
def test_json_by_words_alone_is_held_against_the_baseline_and_against_nothing_else(
    baseline: Sequence[str] | None, verdict: Verdict
) -> None:
    result = ask("json_truncated", baseline=baseline, settings=replace(LENGTHS_ALONE, context_lengths=()))
    finding = only(result, "json_plain")
    assert finding.verdict is verdict
    assert finding.measured == 0.0
    assert finding.warning or finding.symptom == "json_truncated"


def test_every_answer_is_kept_with_its_bucket_for_a_person_to_check() -> None:
    facts = ask(settings=LENGTHS_ALONE).facts
    answers = facts["json_answers"]
    assert isinstance(answers, list)
    assert [set(answer) for answer in answers] == [{"schema", "sorted_as", "finish_reason", "said"}] * 12


def test_a_server_of_the_messages_api_is_asked_what_it_can_answer() -> None:
    result = ask(api="anthropic")
    assert result.verdict is Verdict.PASS, failures(result)
    skipped = {finding.check for finding in result.findings if finding.verdict is Verdict.SKIPPED}
    assert skipped == {"json", "prefix_cache", "shared_prefix", "depth_drift"}
    assert only(result, "tools").measured == 1.0
    assert "sound" not in only(result, "tools").warning


@pytest.mark.parametrize(
    ("fault", "symptom"),
    [("int_as_string", "SchemaMismatch"), ("call_in_text", "call_in_text"), ("arg_dropped_in_stream", "InvalidJson")],
)
def test_tool_faults_are_seen_through_the_messages_api_too(fault: str, symptom: str) -> None:
    assert ("tools", symptom) in failures(ask(fault, api="anthropic", settings=TOOLS_ALONE))


def test_lost_facts_are_told_by_depth() -> None:
    (lost,) = [f for f in ask("needle_lost_after:1000").findings if f.check == "context" and f.verdict is Verdict.FAIL]
    assert "at 2048 prompt tokens: facts are lost at depths 0%, 25%, 50%" in lost.message


LENGTHS_ALONE = replace(QUICK, tool_call_schema_check=False, prefix_cache_check=False)


def contexts(result: GateResult) -> list[tuple[Verdict, str]]:
    return [(finding.verdict, finding.symptom) for finding in result.findings if finding.check == "context"]


def test_facts_that_the_baseline_loses_as_well_block_nothing_and_are_told() -> None:
    result = ask("needle_lost_after:1000", baseline=["needle_lost_after:1000"], settings=LENGTHS_ALONE)
    assert contexts(result) == [(Verdict.PASS, ""), (Verdict.PASS, "")]
    assert "the baseline loses the same" in [f.warning for f in result.findings if f.check == "context"][1]


def test_facts_that_the_baseline_finds_block() -> None:
    result = ask("needle_lost_after:1000", baseline=[], settings=LENGTHS_ALONE)
    assert contexts(result) == [(Verdict.PASS, ""), (Verdict.FAIL, "needle_lost")]


def test_garbage_is_told_from_lost_facts_against_a_baseline_too() -> None:
    result = ask("garbage_beyond:1000", baseline=[], settings=LENGTHS_ALONE)
    assert contexts(result) == [(Verdict.PASS, ""), (Verdict.FAIL, "garbage")]


def test_the_report_says_what_each_length_took() -> None:
    costs = ask(settings=LENGTHS_ALONE).facts["context"]
    assert isinstance(costs, dict)
    took = costs["2048"]
    assert took["requests"] == 7
    assert took["prompt_tokens_sent"] == 7 * 2048  # five questions, and one each of 2,047 and 2,049 tokens
    assert took["of_them_cached"] >= 4 * 1900  # the first question fills the cache that the other four read
    assert 0 < took["tokenizer_calls"] <= 12
    assert took["seconds"] > 0


def test_progress_counts_prompt_tokens_up_to_the_end() -> None:
    told: list[tuple[int, int]] = []

    class Listening(Quiet):
        def progress(self, gate: Gate, message: str, done: int, total: int, unit: str) -> None:
            if unit == "prompt tokens":
                assert "s left" in message
                told.append((done, total))

    ask(settings=LENGTHS_ALONE, observer=Listening())
    assert told[-1] == (7 * (512 + 2048), 7 * (512 + 2048))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_fault_beyond_a_position_is_a_step_against_the_baseline() -> None:
    """Places of 512 and 2,048 tokens: 123, 251, 379, 507, 1019, 1531, 2043; the fault starts at 1,000."""
    result = ask("garbage_beyond:1000", baseline=[], settings=LENGTHS_ALONE)
    finding = only(result, "depth_drift")
    assert (finding.verdict, finding.symptom) == (Verdict.FAIL, "step_at_depth")
    assert "beyond 507 to 1019 tokens" in finding.message
    assert finding.samples == 6


def test_a_fault_at_every_position_is_no_step_and_is_told() -> None:
    finding = only(ask("noise:1", baseline=[], settings=LENGTHS_ALONE), "depth_drift")
    assert finding.verdict is Verdict.PASS
    assert "gate 2" in finding.warning


def test_a_length_that_fails_alone_is_no_step() -> None:
    assert only(ask("edge_off_by_one:512", baseline=[], settings=LENGTHS_ALONE), "depth_drift").verdict is Verdict.PASS


def test_a_small_step_blocks_nothing_and_is_told() -> None:
    finding = only(ask("fp8_kv_long:600", baseline=[], settings=LENGTHS_ALONE), "depth_drift")
    assert finding.verdict is Verdict.PASS
    assert "it begins there" in finding.warning


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_healthy_servers_of_any_parallelism_have_no_step(tp: int) -> None:
    finding = only(ask(baseline=[], server=SimulatorSettings(tp=tp), settings=LENGTHS_ALONE), "depth_drift")
    assert finding.verdict is Verdict.PASS
    assert not finding.warning


@pytest.mark.parametrize(("gateway", "why"), [(False, "no live baseline"), (True, "no logprobs")])
def test_logprobs_at_depth_need_a_baseline_that_gives_them_and_say_so(gateway: bool, why: str) -> None:
    server = SimulatorSettings(tp=1, gateway=gateway)
    finding = only(ask(baseline=[] if gateway else None, server=server, settings=LENGTHS_ALONE), "depth_drift")
    assert finding.verdict is Verdict.SKIPPED
    assert gateway or why in finding.message


def test_nan_behind_a_long_text_is_the_releases_fault() -> None:
    result = ask("nan_logits", baseline=[], settings=LENGTHS_ALONE)
    assert ("depth_drift", "nan_logits") in failures(result)


def test_places_reach_each_length_and_stay_apart() -> None:
    """Quarters of each length, five tokens before the round numbers at which blocks and chunks end."""
    whole = [123, 1019, 2043, 3067, 4091, 8187, 12_283, 16_379, 24_571, 32_763]
    assert places((4096, 16_384, 32_768), None) == whole
    assert places((4096, 16_384), 8192) == whole[:5]
    assert places((4096, 4200), None)[-1] == 4195


def test_a_length_beyond_the_window_is_inconclusive_with_both_numbers() -> None:
    result = ask(settings=replace(QUICK, context_lengths=(512, 40_000)))
    (far,) = [finding for finding in result.findings if finding.verdict is Verdict.INCONCLUSIVE]
    assert "40000" in far.message
    assert "32768" in far.message


def test_a_server_without_a_tool_parser_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm_gate.server.openai_api import OpenAIService
    from vllm_gate.server.reply import Answer, Refusal

    plain = OpenAIService.chat

    def refusing(self: OpenAIService, messages: Sequence[dict[str, object]], **fields: object) -> Answer:
        if "tools" in fields:
            return Refusal(status=400, message='"auto" tool choice requires --enable-auto-tool-choice')
        return plain(self, messages, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(OpenAIService, "chat", refusing)
    finding = only(ask(), "tools")
    assert (finding.verdict, finding.symptom) == (Verdict.INCONCLUSIVE, "tools_off")


def test_a_gateway_without_counters_can_not_prove_a_hit() -> None:
    result = ask(server=SimulatorSettings(tp=1, gateway=True))
    assert only(result, "prefix_cache").symptom == "hit_not_proved"
    assert all("counted by the server's usage" in f.message for f in result.findings if f.check == "context")


def test_a_rate_that_can_not_be_certified_within_the_budget_says_how_much_is_needed() -> None:
    """The rule of three: no failure in n answers bounds the rate by .05^(1/n), so 99 % needs 299."""
    finding = only(ask(settings=replace(QUICK, rate_verdict="certified")), "json")
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "299" in finding.remedy


def test_checks_that_are_switched_off_are_not_asked() -> None:
    checks = LongContext().checks(
        Plan(
            services={},
            gates=Gates(long_context=replace(QUICK, tool_call_schema_check=False, prefix_cache_check=False)),
        )
    )
    assert [check.name for check in checks] == ["json", "json_plain", "context", "depth_drift"]


@pytest.mark.parametrize("length", [300, 511, 512, 513, 4096, 32_768])
def test_prompts_have_exactly_the_wanted_length_after_few_counts(length: int) -> None:
    counts = 0

    def count(messages: object) -> int:
        nonlocal counts
        counts += 1
        return len(tokenizer().chat(messages))  # type: ignore[arg-type]

    prompt = build(length, count, np.random.default_rng(1))
    assert prompt.tokens == length
    assert counts <= 10
    assert [len(tokenizer().chat(prompt.messages(depth))) for depth in range(len(DEPTHS))] == [length] * 5


def test_facts_stand_at_their_depths() -> None:
    prompt = build(4096, lambda messages: len(tokenizer().chat(messages)), np.random.default_rng(1))
    places = [prompt.text.index(code) / len(prompt.text) for _, code in prompt.facts]
    assert places == pytest.approx(list(DEPTHS), abs=0.02)


def test_the_shipped_schemas_are_valid_and_of_many_kinds() -> None:
    for case in corpus():
        Draft202012Validator.check_schema(case.schema)
    text = str([case.schema for case in corpus()])
    assert all(kind in text for kind in ("enum", "array", "anyOf", "$ref", "null", "boolean", "number", "maximum"))
