"""Every gate there is, in the order in which they are asked and reported."""

from __future__ import annotations

from vllm_gate.gates.execution_path import ExecutionPathGate
from vllm_gate.gates.golden_prompt import GoldenPrompt
from vllm_gate.gates.interface import Gate
from vllm_gate.gates.long_context import LongContext
from vllm_gate.gates.model_load import ModelLoad
from vllm_gate.gates.numerical import Numerical
from vllm_gate.gates.shadow_canary import ShadowCanary

GATES: tuple[Gate, ...] = (
    ModelLoad(),
    ExecutionPathGate(),
    Numerical(),
    GoldenPrompt(),
    LongContext(),
    ShadowCanary(),
)
