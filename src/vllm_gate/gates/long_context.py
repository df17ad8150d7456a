"""Gate 4: long prompts, JSON, tool calls and the prefix cache: what short plain questions never touch."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_gate.config.plan import Plan
from vllm_gate.gates.capability.context import ask_context
from vllm_gate.gates.capability.depth import ask_depth
from vllm_gate.gates.capability.json_output import ask_json
from vllm_gate.gates.capability.json_plain import ask_plain_json
from vllm_gate.gates.capability.known import Known
from vllm_gate.gates.capability.prefix_cache import ask_prefix_cache
from vllm_gate.gates.capability.shared_prefix import ask_shared_prefix
from vllm_gate.gates.capability.tool_calls import ask_tools
from vllm_gate.gates.interface import Check

CHECK_NAMES = (
    "json",
    "json_plain",
    "tools",
    "prefix_cache",
    "shared_prefix",
    "context",
    "context_edges",
    "depth_drift",
)


class LongContext:
    """See the module."""

    key = "gate_4_long_context"
    number = 4
    title = "long context, JSON, tools, prefix cache"

    def checks(self, plan: Plan) -> Sequence[Check]:
        """From cheap to costly."""
        settings, known = plan.gates.long_context, Known()
        checks = [
            Check("json", lambda context: ask_json(context, known)),
            Check("json_plain", lambda context: ask_plain_json(context, known)),
        ]
        if settings.tool_call_schema_check:
            checks.append(Check("tools", lambda context: ask_tools(context, known)))
        if settings.prefix_cache_check:
            checks.append(Check("prefix_cache", lambda context: ask_prefix_cache(context, known)))
            checks.append(Check("shared_prefix", ask_shared_prefix))
        checks.append(Check("context", lambda context: ask_context(context, known)))
        checks.append(Check("depth_drift", lambda context: ask_depth(context, known)))
        return checks

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        """None."""
        return ()
