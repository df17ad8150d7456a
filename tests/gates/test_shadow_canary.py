"""Gate 5 between scripted servers: verdicts, budgets, resuming, and what is kept of users' texts."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.gates.shadow import BROKEN, DROP_ONLY, FINE, Kept, Numbered, Scripted, broken, canary, from_number, number_of

from vllm_gate.config.plan import ShadowCanarySettings, TrafficSettings, Validator
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import CouldNotJudge, NoAnswer
from vllm_gate.gates.canary.means import Means
from vllm_gate.gates.canary.outcome import to_row
from vllm_gate.server.failures import TIMEOUT
from vllm_gate.server.reply import Answer, Refusal, Reply
from vllm_gate.traffic.request import CHAT, TrafficRequest


def verdicts(findings: Mapping[str, Any]) -> dict[str, Verdict]:
    return {check: finding.verdict for check, finding in findings.items()}


def test_a_healthy_candidate_passes_every_question() -> None:
    findings, facts = canary(Scripted(), Scripted())
    assert verdicts(findings) == dict.fromkeys(("traffic", "task_success", "degeneration", "transport"), Verdict.PASS)
    assert facts["counts"]["worse"] == facts["counts"]["better"] == 0
    assert facts["counts"]["same"] < 400, "it stops as soon as enough is known"
    assert facts["ended"] == "enough is known"


def test_a_broken_candidate_is_stopped_within_15_with_examples_and_its_symptom() -> None:
    candidate = Scripted(broken)
    findings, facts = canary(candidate, Scripted(), settings=replace(DROP_ONLY, degeneration_rate_threshold=0.001))
    assert facts["counts"]["worse"] <= 15
    assert len(candidate.asked) <= 15 + 4 * 4, "what was under way at the end"
    assert findings["task_success"].verdict is Verdict.FAIL
    assert findings["task_success"].measured == 1.0
    assert findings["degeneration"].verdict is Verdict.FAIL
    assert findings["degeneration"].symptom == "one_character"
    examples = [one.text for one in findings["task_success"].evidence if one.title.startswith("request 0 ")]
    assert "!!!!!!!!" in examples[0]


def test_the_evidence_is_told_from_the_last_pair_back_and_each_state_once() -> None:
    findings, facts = canary(Scripted(broken), Scripted())
    lines = findings["task_success"].evidence[0].text.splitlines()
    pairs = facts["counts"]["worse"]
    assert lines[0].startswith("McNemar, exact, two-sided: p = ")
    assert [int(line.split()[0]) for line in lines[2:]][:3] == [pairs, pairs // 2, pairs // 4]
    points = [point["pairs"] for point in facts["curve"]]
    assert points == list(range(1, pairs + 1))


def test_where_one_question_failed_the_others_ask_for_nothing() -> None:
    findings, _ = canary(Scripted(broken), Scripted(), settings=replace(DROP_ONLY, degeneration_rate_threshold=0.9))
    assert findings["task_success"].remedy
    assert findings["degeneration"].verdict is Verdict.INCONCLUSIVE
    assert (findings["degeneration"].remedy, "another question failed" in findings["degeneration"].message) == (
        "",
        True,
    )


def test_nothing_of_a_users_text_is_kept() -> None:
    journal = Kept()
    findings, facts = canary(Scripted(broken), Scripted(), means=Means(journal=journal))
    everything = repr(findings) + json.dumps(facts) + json.dumps([to_row(one) for one in journal.outcomes])
    assert "private" not in everything
    assert "Paris" not in everything
    assert "xxxxxxx xxxxxxxx 9" in everything


def test_with_keep_text_texts_are_kept_with_what_identifies_somebody_blacked_out() -> None:
    says = Reply(text="!" * 300 + " mail ana@example.org about ACME-7", finish_reason="length")
    findings, _ = canary(
        Scripted(lambda _: says), Scripted(), kept=TrafficSettings(keep_text=True, redact=(r"ACME-\d+",))
    )
    shown = findings["task_success"].evidence[1].text
    assert "private question" in shown
    assert "ana@example.org" not in shown
    assert "ACME-7" not in shown
    assert "███" in shown


def test_too_little_traffic_is_inconclusive_and_says_how_much_is_missing() -> None:
    settings = ShadowCanarySettings(traffic_ratio=1.0)
    findings, _ = canary(Scripted(), Scripted(), settings=settings, traffic=Numbered(100))
    assert findings["degeneration"].verdict is Verdict.INCONCLUSIVE
    # 3,246 clean pairs certify 0.1 %; 100 were seen.
    assert "about 3,200 more requests are needed to know" in findings["degeneration"].message
    assert "traffic.jsonl) is at its end" in findings["degeneration"].message


def test_a_true_number_of_missing_requests_ends_in_a_verdict() -> None:
    settings = ShadowCanarySettings(traffic_ratio=1.0, concurrency=1)
    findings, facts = canary(Scripted(), Scripted(), settings=settings, traffic=Numbered(100 + 3_200))
    assert findings["degeneration"].verdict is Verdict.PASS
    assert facts["counts"]["same"] == 3_246


def test_a_candidate_that_breaks_later_is_stopped_soon_after() -> None:
    findings, facts = canary(
        Scripted(from_number(150, BROKEN)), Scripted(), settings=replace(DROP_ONLY, task_success_drop_threshold=0.02)
    )
    assert findings["task_success"].verdict is Verdict.FAIL
    assert facts["counts"]["same"] == 150
    assert facts["counts"]["worse"] < 40


def half_broken(body: Mapping[str, Any]) -> Answer:
    return BROKEN if random.Random(number_of(body)).random() < 0.5 else FINE


def test_both_broken_alike_is_no_drop() -> None:
    findings, facts = canary(Scripted(half_broken), Scripted(half_broken))
    assert findings["task_success"].verdict is Verdict.PASS
    assert facts["counts"]["degenerate"] == 0
    assert facts["candidate"]["degenerate"] == facts["baseline"]["degenerate"] > 50


def test_concurrency_changes_nothing() -> None:
    def says(body: Mapping[str, Any]) -> Answer:
        time.sleep(random.random() / 500)
        return BROKEN if random.Random(number_of(body)).random() < 0.12 else FINE

    ends = []
    for concurrency in (1, 3, 16):
        _, facts = canary(Scripted(says), Scripted(), settings=replace(DROP_ONLY, concurrency=concurrency))
        ends.append((facts["counts"], facts["curve"]))
    assert ends[0] == ends[1] == ends[2]


# --- servers that do not answer ----------------------------------------------------------------------------------


def timing_out(_body: Mapping[str, Any]) -> Answer:
    raise NoAnswer("no answer", reason=TIMEOUT)


@pytest.mark.parametrize(
    ("says", "symptom"),
    [(lambda _: Refusal(status=500, message="x"), "http_500"), (timing_out, TIMEOUT)],
)
def test_a_candidate_that_does_not_answer_where_the_baseline_does_is_stopped(says: Any, symptom: str) -> None:
    findings, facts = canary(Scripted(says), Scripted())
    assert findings["transport"].verdict is Verdict.FAIL
    assert findings["transport"].symptom == symptom
    assert findings["task_success"].verdict is Verdict.FAIL
    assert facts["counts"]["unanswered"] <= 15


def test_an_outage_of_both_is_not_blamed_on_the_candidate() -> None:
    findings, facts = canary(Scripted(timing_out), Scripted(timing_out))
    assert Verdict.FAIL not in verdicts(findings).values()
    assert findings["traffic"].verdict is Verdict.INCONCLUSIVE
    assert facts["counts"]["excluded"] == 20, "then it is taken for dead"
    assert "20 requests in a row" in facts["ended"]


def test_a_baseline_that_leaves_too_many_unanswered_proves_nothing() -> None:
    def flaky(body: Mapping[str, Any]) -> Answer:
        return Refusal(status=500, message="x") if number_of(body) % 5 == 0 else FINE

    findings, _ = canary(Scripted(), Scripted(flaky))
    assert findings["traffic"].verdict is Verdict.INCONCLUSIVE
    assert findings["traffic"].symptom == "baseline_unanswered"
    assert "× unanswered:http_500" in findings["traffic"].message


def test_a_busy_server_is_asked_again() -> None:
    turns = {"left": 2}

    def busy(_body: Mapping[str, Any]) -> Answer:
        turns["left"] -= 1
        return Refusal(status=503, message="busy") if turns["left"] >= 0 else FINE

    findings, facts = canary(Scripted(busy), Scripted())
    assert facts["counts"]["unanswered"] == 0
    assert findings["transport"].verdict is Verdict.PASS


def test_without_access_nothing_is_asked() -> None:
    class Locked(Scripted):
        def chat(self, *_: object, **__: object) -> Answer:
            return Refusal(status=401, message="no key")

    candidate = Locked()
    findings, _ = canary(candidate, Scripted())
    assert verdicts(findings) == {"traffic": Verdict.ERROR}
    assert findings["traffic"].message.startswith("under_test: ")
    assert not candidate.asked


# --- traffic -----------------------------------------------------------------------------------------------------


def test_without_traffic_or_baseline_nothing_is_proven() -> None:
    class Nothing(Numbered):
        pass

    findings, _ = canary(Scripted(), None)
    assert findings["traffic"].symptom == "no_baseline"
    assert "recorded" in findings["traffic"].remedy
    findings, _ = canary(Scripted(), Scripted(), traffic=Nothing(0))
    assert findings["traffic"].verdict is Verdict.INCONCLUSIVE


def test_recorded_answers_stand_for_the_baseline() -> None:
    class Recorded(Numbered):
        def requests(self) -> Generator[TrafficRequest | None]:
            choice = {"message": {"content": FINE.text}, "finish_reason": "stop"}
            for request in super().requests():
                assert request
                yield replace(request, recorded={"choices": [choice]})

    kept = TrafficSettings(answers="recorded")
    findings, facts = canary(Scripted(), None, traffic=Recorded(400), kept=kept)
    assert findings["task_success"].verdict is Verdict.PASS
    assert facts["baseline"]["tokens"] == 0
    findings, _ = canary(Scripted(broken), None, traffic=Recorded(400), kept=kept)
    assert findings["task_success"].verdict is Verdict.FAIL
    findings, _ = canary(Scripted(), None, traffic=Numbered(100), kept=kept)
    assert findings["traffic"].verdict is Verdict.INCONCLUSIVE
    assert "100 × no recorded answer" in findings["traffic"].evidence[0].text


def test_a_request_is_sent_as_its_client_wrote_it_but_for_who_sent_it() -> None:
    class One(Numbered):
        def requests(self) -> Generator[TrafficRequest | None]:
            body = {
                "model": "theirs",
                "user": "ana",
                "metadata": {"k": "v"},
                "n": 4,
                "messages": [{"role": "user", "content": "Hi"}],
                "temperature": 0.7,
                "max_completion_tokens": 5000,
                "stream": True,
            }
            yield TrafficRequest(id="1", endpoint=CHAT, body=body)

    candidate = Scripted()
    canary(candidate, Scripted(), traffic=One(1))
    assert candidate.asked == [
        {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0.7, "stream": True, "max_tokens": 1024}
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max_requests": 20}, "max_requests (20) are reached"),
        ({"max_total_tokens": 500}, "max_total_tokens (500) are used up"),
        ({"max_duration_sec": 0.05}, "max_duration_sec (0.05 s) is over"),
    ],
)
def test_budgets_end_it(change: dict[str, Any], told: str) -> None:
    def slow(_body: Mapping[str, Any]) -> Answer:
        time.sleep(0.005)
        return replace(FINE, usage=replace(FINE.usage, prompt_tokens=10, completion_tokens=10))

    findings, facts = canary(Scripted(slow), Scripted(slow), settings=replace(DROP_ONLY, **change))
    assert facts["ended"] == told
    assert findings["task_success"].verdict is Verdict.INCONCLUSIVE
    if "max_requests" in change:
        assert facts["counts"]["same"] == 20


# --- validators --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("validator", "worse"),
    [
        (Validator(name="v", regex="Paris"), True),
        (Validator(name="v", regex="capital"), False),
        (Validator(name="v", regex="Paris", where="no such question"), False),
        (Validator(name="v", regex="Paris", where="private"), True),
        (Validator(name="v", json_schema={"type": "object"}), False),
        (Validator(name="v", command=("judge",)), True),
    ],
)
def test_validators(validator: Validator, worse: bool) -> None:
    other = replace(FINE, text="Berlin is the capital of France.")

    def command(_: Validator, line: str) -> bool:
        return "Paris" in json.loads(line)["answer"]["text"]

    findings, facts = canary(
        Scripted(lambda _: other),
        Scripted(),
        settings=replace(DROP_ONLY, validators=(validator,)),
        means=Means(run_command=command),
    )
    assert (findings["task_success"].verdict is Verdict.FAIL) is worse
    assert facts["candidate"]["signals"].get("validator:v", 0) == (facts["counts"]["worse"] or 0) or not worse


def test_a_validator_that_breaks_is_an_error_that_keeps_what_was_known() -> None:
    calls = iter(range(10_000))

    def command(*_: object) -> bool:
        if next(calls) > 40:
            raise CouldNotJudge("the validator 'v' ended", hint="mend it")
        return True

    settings = replace(DROP_ONLY, validators=(Validator(name="v", command=("x",)),), concurrency=1)
    findings, facts = canary(Scripted(), Scripted(), settings=settings, means=Means(run_command=command))
    assert findings["traffic"].verdict is Verdict.ERROR
    assert findings["traffic"].remedy == "mend it"
    assert facts["counts"]["same"] == 20
    assert findings["task_success"].verdict is Verdict.INCONCLUSIVE


# --- resuming and shards -----------------------------------------------------------------------------------------


def a_tenth_broken(body: Mapping[str, Any]) -> Answer:
    return BROKEN if random.Random(number_of(body)).random() < 0.1 else FINE


@pytest.mark.parametrize("kept", [0, 1, 7, 50, 111])
def test_a_canary_that_goes_on_ends_as_one_that_was_never_stopped(kept: int) -> None:
    whole = Kept()
    _, expected = canary(Scripted(a_tenth_broken), Scripted(), means=Means(journal=whole))
    again = Kept(whole.outcomes[:kept])
    candidate = Scripted(a_tenth_broken)
    _, facts = canary(candidate, Scripted(), means=Means(journal=again))
    assert (facts["counts"], facts["curve"]) == (expected["counts"], expected["curve"])
    assert [one.number for one in again.outcomes] == [one.number for one in whole.outcomes]
    assert facts["resumed"] == kept
    assert not {number_of(body) for body in candidate.asked} & set(range(kept)), "nothing is asked twice"


def test_another_traffic_is_not_gone_on_with() -> None:
    class Others(Numbered):
        def requests(self) -> Generator[TrafficRequest | None]:
            for request in super().requests():
                assert request
                yield replace(request, id=f"x{request.id}")

    whole = Kept()
    canary(Scripted(a_tenth_broken), Scripted(), means=Means(journal=whole))
    for traffic in (Others(400), Numbered(10)):
        means = Means(journal=Kept(whole.outcomes[:50]))
        findings, _ = canary(Scripted(), Scripted(), traffic=traffic, means=means)
        assert findings["traffic"].verdict is Verdict.ERROR
        assert "is not the traffic that the journal was begun with" in findings["traffic"].message


def test_shards_share_the_sample() -> None:
    settings = replace(DROP_ONLY, task_success_drop_threshold=0.001)  # nothing is decided early
    journals = [Kept() for _ in range(3)]
    for shard, journal in enumerate(journals):
        canary(Scripted(), Scripted(), settings=settings, means=Means(journal=journal, shard=shard, shards=3))
    numbers = sorted(one.number for journal in journals for one in journal.outcomes)
    assert numbers == list(range(400))
