"""Gate 4: long prompts, JSON, tool calls and the prefix cache: what short plain questions never touch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_gate.config.plan import Plan
from vllm_gate.core.finding import Finding
from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.capability.context import ask_context
from vllm_gate.gates.capability.json_output import ask_json
from vllm_gate.gates.capability.prefix_cache import ask_prefix_cache
from vllm_gate.gates.capability.tool_calls import ask_tools
from vllm_gate.gates.interface import Check, Context

CHECK_NAMES = ("context", "context_edges", "json", "tools", "prefix_cache")


class LongContext:
    """See the module."""

    key = "gate_4_long_context"
    number = 4
    title = "long context, JSON, tools, prefix cache"

    def checks(self, plan: Plan) -> Sequence[Check]:
        """From cheap to costly."""
        settings = plan.gates.long_context
        checks = [Check("json", ask_json)]
        checks += [Check("tools", ask_tools)] if settings.tool_call_schema_check else []
        checks += [Check("prefix_cache", _prefix_cache)] if settings.prefix_cache_check else []
        return [*checks, Check("context", _context)]

    def closing_checks(self, plan: Plan) -> Sequence[Check]:
        """None."""
        return ()


def _prefix_cache(context: Context) -> Iterator[Finding]:
    return ask_prefix_cache(context, _window(context))


def _context(context: Context) -> Iterator[Finding]:
    return ask_context(context, _window(context))


def _window(context: Context) -> int | None:
    """The served context window; None where the server does not say."""
    try:
        cards = context.under_test.models()
    except CouldNotJudge:
        return None
    return next((card.max_model_len for card in cards if card.id == context.under_test.model), None)
