"""How far two answers to the same prompt lie apart: by the distributions behind the tokens, as in gate 2."""

from __future__ import annotations

import numpy as np

from vllm_gate.judge.least_variation import least_total_variation
from vllm_gate.judge.positions import pack
from vllm_gate.judge.trace import Trace, shared_decoding
from vllm_gate.server.reply import Reply

TOP_K = 20
"""Asked for; a server that caps it is asked for five."""


def moved(one: Reply, other: Reply) -> float | None:
    """Mean total variation over the tokens that follow the same text, up to the first difference.

    Without logprobs only equal texts say something: 0. None where the texts differ, which may be noise.
    """
    a, b = _trace(one), _trace(other)
    pair = shared_decoding(a, b) if a is not None and b is not None else None
    if pair is None:
        return 0.0 if one.text == other.text else None
    return float(np.mean(least_total_variation(pair[0], pair[1])))


def _trace(reply: Reply) -> Trace | None:
    if not reply.logprobs:
        return None
    rows = []
    for number, position in enumerate(reply.logprobs):
        token = position.token_id
        if token is None and reply.token_ids is not None and number < len(reply.token_ids):
            token = reply.token_ids[number]
        if token is None:
            return None
        logprob = position.top.get(token, position.logprob)
        rows.append((token, float("nan") if logprob is None else logprob, position.top.items()))
    return Trace(prompt_id="", token_ids=(), start=0, decoded=pack(rows, TOP_K))
