"""The user's own tests of an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from vllm_gate.config.plan import Validator
from vllm_gate.gates.canary.reading import answer_line, last_text
from vllm_gate.judge.buckets import VALID, call_bucket, json_bucket
from vllm_gate.server.reply import Reply
from vllm_gate.traffic.request import TrafficRequest

RunCommand = Callable[[Validator, str], bool]
"""Puts a line of JSON to a validator's command. Raises CouldNotJudge when it does not say yes or no."""


def refusals(
    validators: Sequence[Validator], request: TrafficRequest, reply: Reply, run_command: RunCommand
) -> Iterator[str]:
    """`validator:NAME` for each validator that concerns the request and refuses the answer."""
    for validator in validators:
        concerned = not validator.where or re.search(validator.where, last_text(request))
        if concerned and not _accepts(validator, request, reply, run_command):
            yield f"validator:{validator.name}"


def _accepts(validator: Validator, request: TrafficRequest, reply: Reply, run_command: RunCommand) -> bool:
    if validator.regex:
        return re.search(validator.regex, reply.text) is not None
    if validator.json_schema is not None:
        return json_bucket(reply.text, validator.json_schema, reply.finish_reason)[0] == VALID
    if validator.tool_schema is not None:
        known = [call for call in reply.tool_calls if call.name in validator.tool_schema]
        return all(call_bucket(call.name, call.arguments, validator.tool_schema)[0] == VALID for call in known)
    return run_command(validator, answer_line(request, reply))
