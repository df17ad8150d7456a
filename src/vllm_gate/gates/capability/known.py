"""What the checks of this gate find out about the server once: its window, and whether its model thinks aloud."""

from __future__ import annotations

from vllm_gate.errors import CouldNotJudge
from vllm_gate.gates.interface import Context
from vllm_gate.server.interface import Service
from vllm_gate.server.reply import Reply

THINKING = 2048
"""Tokens that a model which thinks aloud may take before it answers."""


class Known:
    """Asked on first use, and kept."""

    def __init__(self) -> None:
        self._window: list[int | None] = []
        self._room: list[int] = []

    def window(self, context: Context) -> int | None:
        """The served context window; None where the server does not say."""
        if not self._window:
            self._window.append(window_of(context.under_test))
        return self._window[0]

    def room(self, context: Context) -> int:
        """Tokens to allow beside the answer: some for a model that reasons first, none for others."""
        if not self._room:
            self._room.append(THINKING if _thinks(context.under_test) else 0)
        return self._room[0]


def baseline_of(context: Context) -> Service | None:
    """The release before, where it can be asked."""
    return context.services.get("baseline")


def window_of(service: Service) -> int | None:
    """The context window that `/v1/models` names for the served model."""
    try:
        cards = service.models()
    except CouldNotJudge:
        return None
    return next((card.max_model_len for card in cards if card.id == service.model), None)


def answer_of(reply: Reply) -> str:
    """What was said after the thinking, also where no reasoning parser takes that out of the text."""
    return reply.text.rpartition("</think>")[2]


def ran_out_of_thinking(reply: Reply) -> bool:
    """Whether max_tokens came before the answer began: nothing then says whether it would have been right."""
    thought = bool(reply.reasoning) or "<think>" in reply.text
    return thought and reply.finish_reason == "length" and not (reply.text.strip() and "<think>" not in reply.text)


def _thinks(service: Service) -> bool:
    try:
        answer = service.chat([{"role": "user", "content": "Reply with exactly: OK"}], max_tokens=16)
    except CouldNotJudge:
        return False
    return isinstance(answer, Reply) and (bool(answer.reasoning) or answer.text.lstrip().startswith("<think>"))
