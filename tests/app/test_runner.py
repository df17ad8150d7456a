"""Gates are asked in order; nothing one of them does stops the others or loses a finding."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pytest

from vllm_gate.app.observers import Quiet
from vllm_gate.app.runner import NEVER_READY, Selection, run_gates
from vllm_gate.config.plan import Plan, ServiceConfig
from vllm_gate.core.finding import Finding
from vllm_gate.core.report import GateResult
from vllm_gate.core.verdict import Verdict
from vllm_gate.errors import Interrupted, NoAnswer
from vllm_gate.gates.interface import Check, Context, Gate

PLAN = Plan(services={"under_test": ServiceConfig(name="under_test")})
Ask = Callable[[Context], Iterable[Finding]]


class Scripted:
    def __init__(self, number: int, *asks: Ask, closing: tuple[Ask, ...] = ()) -> None:
        self.key, self.number, self.title = f"gate_{number}", number, f"gate {number}"
        self._asks, self._closing = asks, closing

    def checks(self, plan: Plan) -> Sequence[Check]:
        return [Check(f"check_{i}", ask) for i, ask in enumerate(self._asks)]

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        return [Check(f"closing_{i}", ask) for i, ask in enumerate(self._closing)]


class Recorder(Quiet):
    def __init__(self) -> None:
        self.told: list[str] = []

    def gate_started(self, gate: Gate) -> None:
        self.told.append(f"start {gate.key}")

    def found(self, gate: Gate, finding: Finding) -> None:
        self.told.append(f"found {finding.check}")

    def gate_finished(self, result: GateResult) -> None:
        self.told.append(f"finish {result.gate} {result.verdict}")


def passing(name: str = "fine") -> Ask:
    return lambda _: [Finding(check=name, verdict=Verdict.PASS, message="fine")]


def run(*gates: Gate, skipped: dict[str, str] | None = None, observer: Quiet | None = None) -> tuple[GateResult, ...]:
    context = Context(
        plan=PLAN,
        services={},
        log=None,
        progress=lambda *_, **__: None,
        now=lambda: 0.0,
        sleep=lambda _: None,
        rng=np.random.default_rng(0),
    )
    ticks = iter(range(1000))
    return run_gates(Selection(gates, skipped or {}), context, observer or Quiet(), lambda: float(next(ticks)))


def test_results_stand_in_order_with_skipped_ones_in_their_place() -> None:
    results = run(Scripted(1, passing()), Scripted(2, passing()), skipped={"gate_1": "switched off"})
    assert [(result.gate, result.verdict, result.skipped) for result in results] == [
        ("gate_1", Verdict.SKIPPED, "switched off"),
        ("gate_2", Verdict.PASS, ""),
    ]


def test_a_check_that_throws_keeps_its_place_and_the_findings_it_gave() -> None:
    def half(_: Context) -> Iterator[Finding]:
        yield Finding(check="first", verdict=Verdict.PASS, message="fine")
        raise ZeroDivisionError("oops")

    (result,) = run(Scripted(1, half, passing("after")))
    assert [(finding.check, finding.verdict) for finding in result.findings] == [
        ("first", Verdict.PASS),
        ("check_0", Verdict.ERROR),
        ("after", Verdict.PASS),
    ]
    assert "ZeroDivisionError: oops" in result.findings[1].message
    assert result.verdict is Verdict.ERROR


def test_a_service_that_does_not_answer_is_an_error_with_its_hint() -> None:
    def unreachable(_: Context) -> Iterable[Finding]:
        raise NoAnswer("nothing listens on port 8000", reason="refused", hint="start vLLM")

    (result,) = run(Scripted(1, unreachable))
    assert (result.findings[0].message, result.findings[0].remedy) == ("nothing listens on port 8000", "start vLLM")
    assert result.findings[0].verdict is Verdict.ERROR


def test_an_interruption_is_not_a_finding() -> None:
    def interrupted(_: Context) -> Iterable[Finding]:
        raise Interrupted("SIGTERM")

    with pytest.raises(Interrupted):
        run(Scripted(1, interrupted))


def test_closing_checks_are_asked_after_the_last_gate_and_told_as_the_whole_gate() -> None:
    recorder = Recorder()
    results = run(Scripted(1, passing("a"), closing=(passing("again"),)), Scripted(2, passing("b")), observer=recorder)
    assert [finding.check for finding in results[0].findings] == ["a", "again"]
    assert recorder.told == [
        "start gate_1", "found a", "finish gate_1 pass",
        "start gate_2", "found b", "finish gate_2 pass",
        "found again", "finish gate_1 pass",
    ]  # fmt: skip


def test_the_last_gate_is_not_asked_again_at_once() -> None:
    (result,) = run(Scripted(1, passing("a"), closing=(passing("again"),)))
    assert [finding.check for finding in result.findings] == ["a"]


def test_a_server_that_never_became_ready_is_asked_nothing_more() -> None:
    def not_ready(_: Context) -> Iterable[Finding]:
        return [Finding(check="ready_endpoint", verdict=Verdict.ERROR, message="no answer")]

    results = run(Scripted(1, not_ready, closing=(passing(),)), Scripted(2, passing()))
    assert [(result.verdict, result.skipped) for result in results] == [
        (Verdict.ERROR, ""),
        (Verdict.SKIPPED, NEVER_READY),
    ]


def test_facts_belong_to_the_gate_that_noted_them() -> None:
    def noting(name: str) -> Ask:
        def ask(context: Context) -> Iterable[Finding]:
            context.facts[name] = 1
            return passing()(context)

        return ask

    first, second = run(Scripted(1, noting("a")), Scripted(2, noting("b")))
    assert (first.facts, second.facts) == ({"a": 1}, {"b": 1})
