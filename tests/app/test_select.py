"""`--gates` narrows what settings.json enables, and refuses what would silently run nothing."""

import dataclasses
from collections.abc import Sequence

import pytest

from vllm_gate.app.select import NO_LOG, select
from vllm_gate.config.plan import Gates, GoldenPromptSettings, ModelLoadSettings, NumericalSettings, Plan, ServiceConfig
from vllm_gate.core.finding import Location
from vllm_gate.errors import UsageError
from vllm_gate.gates.interface import Check


class Stub:
    def __init__(self, key: str, number: int) -> None:
        self.key, self.number, self.title = key, number, key

    def checks(self, plan: Plan) -> Sequence[Check]:
        return ()

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        return ()


GATES = (
    Stub("gate_1_model_load", 1),
    Stub("execution_path", 0),
    Stub("gate_2_numerical", 2),
    Stub("gate_3_golden_prompt", 3),
)


def plan(*, golden: bool = True, numerical: bool = True) -> Plan:
    gates = Gates(numerical=NumericalSettings(enabled=numerical), golden_prompt=GoldenPromptSettings(enabled=golden))
    return Plan(
        services={"under_test": ServiceConfig(name="under_test")},
        gates=gates,
        locations={"gate_config.gate_2_numerical.enabled": Location("settings.json", 10, 5)},
    )


def chosen(wanted: str, of: Plan) -> list[str]:
    selection = select(GATES, of, wanted)
    return [gate.key for gate in selection.gates if gate.key not in selection.skipped]


def test_everything_enabled_runs_by_default() -> None:
    assert chosen("", plan()) == [gate.key for gate in GATES]


def test_a_gate_that_is_switched_off_is_skipped_with_its_place() -> None:
    selection = select(GATES, plan(numerical=False), "")
    assert selection.skipped == {"gate_2_numerical": "switched off in settings.json:10:5"}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("1,3", ["gate_1_model_load", "gate_3_golden_prompt"]),
        ("1-3", ["gate_1_model_load", "execution_path", "gate_2_numerical", "gate_3_golden_prompt"]),
        ("2-3", ["gate_2_numerical", "gate_3_golden_prompt"]),
        ("path", ["execution_path"]),
        (" 1 , path ", ["gate_1_model_load", "execution_path"]),
        ("3-3", ["gate_3_golden_prompt"]),
    ],
)
def test_lists_and_ranges(wanted: str, expected: list[str]) -> None:
    assert chosen(wanted, plan()) == expected


@pytest.mark.parametrize("wanted", ["4", "0", "1-9", "3-1", "one", "1;3", "-1", "1-100000000000"])
def test_a_gate_that_does_not_exist_is_refused_with_the_known_ones(wanted: str) -> None:
    with pytest.raises(UsageError) as refused:
        select(GATES, plan(), wanted)
    assert "known: 1, 2, 3, path" in refused.value.hint


def test_asking_for_a_gate_that_is_switched_off_is_refused_with_its_place() -> None:
    with pytest.raises(UsageError) as refused:
        select(GATES, plan(numerical=False), "2")
    assert "settings.json:10:5" in str(refused.value)


def test_a_range_takes_what_is_switched_on() -> None:
    selection = select(GATES, plan(numerical=False), "1-3")
    assert selection.skipped == {"gate_2_numerical": "switched off in settings.json:10:5"}
    with pytest.raises(UsageError, match="switched off"):
        select(GATES, plan(numerical=False), "1-3,2")


def test_a_gate_that_reads_the_log_is_skipped_without_one_and_says_what_is_lost() -> None:
    reader = Stub("execution_path", 0)
    reader.needs_log = True  # type: ignore[attr-defined]
    selection = select((*GATES[:1], reader), plan(), "")
    assert selection.skipped == {"execution_path": NO_LOG}
    with pytest.raises(UsageError, match="startup log"):
        select((reader,), plan(), "path")
    assert select((reader,), dataclasses.replace(plan(), lock="{}"), "").skipped == {}


def test_all_gates_switched_off_is_refused() -> None:
    nothing = Plan(
        services={"under_test": ServiceConfig(name="under_test")},
        gates=Gates(model_load=ModelLoadSettings(enabled=False)),
    )
    with pytest.raises(UsageError, match="nothing would be judged"):
        select(GATES[:1], nothing, "")
