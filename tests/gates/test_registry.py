"""The registry holds every gate of the folder, once and in order."""

from __future__ import annotations

import importlib
import pkgutil

import vllm_gate.gates
from vllm_gate.gates.registry import GATES

NOT_GATES = {"interface", "registry", "asking", "questions", "readiness", "known_faults"}


def test_every_module_of_the_folder_is_a_registered_gate_or_known_to_be_none() -> None:
    modules = {module.name for module in pkgutil.iter_modules(vllm_gate.gates.__path__) if not module.ispkg}
    assert modules - NOT_GATES == {type(gate).__module__.rpartition(".")[2] for gate in GATES}


def test_gates_are_numbered_in_order_and_named_after_their_number_and_module() -> None:
    numbers = [gate.number for gate in GATES if gate.number]
    assert numbers == sorted(set(numbers))
    for gate in GATES:
        module = type(gate).__module__.rpartition(".")[2]
        assert gate.key == f"gate_{gate.number}_{module}" or module == "execution_path"
        assert gate.title


def test_every_gate_lists_the_names_of_its_checks() -> None:
    for gate in GATES:
        names = importlib.import_module(type(gate).__module__).CHECK_NAMES
        assert names
        assert len(set(names)) == len(names)
