"""One generation request from body to answer, whole or as a stream of chunks."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vllm_gate.simulator.engine import Engine, Generation, Position, Step
from vllm_gate.simulator.exposition import Counters
from vllm_gate.simulator.faults import Faults
from vllm_gate.simulator.requests import GenerationRequest
from vllm_gate.simulator.tokenizer import tokenizer
from vllm_gate.simulator.tools import Call
from vllm_gate.simulator.wire import Answer, Wire, call_id

_ARGUMENT_PIECE = 12


class Generations:
    """Answers generation requests of one server."""

    def __init__(self, engine: Engine, wire: Wire, faults: Faults, counters: Counters) -> None:
        self._engine = engine
        self._wire = wire
        self._faults = faults
        self._counters = counters

    def whole(self, request: GenerationRequest) -> dict[str, Any]:
        """The body of an answer that is not streamed. Raises BadRequest."""
        with self._engine.admit():
            generation = self._engine.start(request)
            pieces = list(self._pieces(request, generation))
        steps = [step for _, step, _ in pieces]
        calls = self._calls(generation, steps)
        self._count(request, generation, steps)
        return self._wire.whole(
            request,
            Answer(
                text="" if calls else "".join(piece for piece, _, _ in pieces),
                token_ids=[step.token for step in steps],
                finish_reason="tool_calls" if calls else steps[-1].finish or "stop",
                stop_reason=pieces[-1][2],
                positions=_positions(steps),
                prompt_positions=generation.prompt_positions,
                cached_tokens=generation.cached_tokens,
                calls=calls,
            ),
        )

    def stream(self, request: GenerationRequest) -> Iterator[dict[str, Any]]:
        """The chunks of a streamed answer. Raises BadRequest, perhaps after the first chunks."""
        identity = self._wire.identity(request)
        with self._engine.admit():
            generation = self._engine.start(request)
            if request.chat:
                yield self._wire.opening(request, identity)
            steps: list[Step] = []
            calls = generation.intent.calls and "call_in_text" not in self._faults
            spoken = (self._call_chunks if calls else self._text_chunks)(request, identity, generation, steps)
            for chunk in spoken:
                last = chunk["choices"][0]["finish_reason"] and not request.include_usage
                yield self._wire.signed(chunk) if last else chunk
        self._count(request, generation, steps)
        if request.include_usage:
            usage = self._wire.usage(request, len(steps), generation.cached_tokens)
            yield self._wire.signed({**identity, "choices": [], "usage": usage})

    def _text_chunks(
        self, request: GenerationRequest, identity: Mapping[str, Any], generation: Generation, steps: list[Step]
    ) -> Iterator[dict[str, Any]]:
        offset = 0
        for piece, step, stop in self._pieces(request, generation):
            lost = "only_streaming" in self._faults and len(steps) % 2 == 0
            steps.append(step)
            finish = "stop" if stop else step.finish or None
            yield self._wire.chunk(
                request,
                identity,
                text="" if lost else piece,
                tokens=[step.token],
                positions=_positions([step]),
                finish_reason=finish,
                offset=offset,
            )
            offset += len(piece)

    def _call_chunks(
        self, request: GenerationRequest, identity: Mapping[str, Any], generation: Generation, steps: list[Step]
    ) -> Iterator[dict[str, Any]]:
        """Tool calls as deltas: the name first, then the arguments piece by piece."""
        steps += generation.steps
        for index, call in enumerate(self._calls(generation, steps)):
            head = {"id": call_id(), "type": "function", "index": index, "function": {"name": call.name}}
            arguments = call.arguments[
                : len(call.arguments) * 2 // 3 if "arg_dropped_in_stream" in self._faults else None
            ]
            pieces = [
                {"index": index, "function": {"arguments": arguments[at : at + _ARGUMENT_PIECE]}}
                for at in range(0, len(arguments), _ARGUMENT_PIECE)
            ]
            for delta in (head, *pieces):
                yield self._wire.chunk(
                    request, identity, text="", tokens=[], positions=[], finish_reason=None, offset=0, calls=[delta]
                )
        yield self._wire.chunk(
            request,
            identity,
            text="",
            tokens=[step.token for step in steps],
            positions=_positions(steps),
            finish_reason="tool_calls",
            offset=0,
        )

    def _pieces(self, request: GenerationRequest, generation: Generation) -> Iterator[tuple[str, Step, str | None]]:
        """Each step with the text it adds (whole characters only) and the stop string it completes."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        text = ""
        for step in generation.steps:
            shown = _shifted(step.token) if "tokenizer_mismatch" in self._faults else step.token
            piece = decoder.decode(tokenizer().token_bytes(shown), final=bool(step.finish))
            text += piece
            stop = next((stop for stop in request.stop if stop in text), None)
            if stop:
                kept = text[: text.index(stop)]
                yield kept[len(text) - len(piece) :], Step(step.token, step.position, "stop"), stop
                return
            yield piece, step, None

    def _calls(self, generation: Generation, steps: Sequence[Step]) -> Sequence[Call]:
        """The calls, where they were said to the end and the parser takes them out of the text."""
        finished = bool(steps) and steps[-1].finish == "stop"
        return generation.intent.calls if finished and "call_in_text" not in self._faults else ()

    def _count(self, request: GenerationRequest, generation: Generation, steps: Sequence[Step]) -> None:
        self._counters.add("vllm:prompt_tokens", len(request.prompt))
        self._counters.add("vllm:generation_tokens", len(steps))
        finish = steps[-1].finish if steps else "abort"
        self._counters.add("vllm:request_success", label=f'finished_reason="{finish or "stop"}"')


def _positions(steps: Sequence[Step]) -> list[Position]:
    return [step.position for step in steps if step.position is not None]


def _shifted(token: int) -> int:
    """The same id in a vocabulary that has another order."""
    size = tokenizer().size - 3
    return token if token >= size else (token * 7 + 13) % size
