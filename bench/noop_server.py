"""A server that costs its clients next to nothing to ask: any completion is answered at once, whole or as a stream."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

MODEL = "noop"
_WORDS = "It is alive and right. " * 10
_USAGE = {"prompt_tokens": 50, "completion_tokens": 60, "total_tokens": 110}


def _answer(content_type: str, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        content_type.encode(),
        len(body),
        body,
    )


def _chunk(delta: dict[str, str] | None, finish: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}] if delta is not None else []
    event = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": choices}
    return b"data: " + json.dumps(event | ({"usage": _USAGE} if delta is None else {})).encode() + b"\n\n"


_WHOLE = _answer(
    "application/json",
    json.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": MODEL,
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": _WORDS}, "finish_reason": "stop"},
            ],
            "usage": _USAGE,
        }
    ).encode(),
)
_STREAM = _answer(
    "text/event-stream",
    _chunk({"role": "assistant", "content": _WORDS}) + _chunk({}, "stop") + _chunk(None) + b"data: [DONE]\n\n",
)
_MODELS = _answer("application/json", json.dumps({"object": "list", "data": [{"id": MODEL}]}).encode())


class _Connection(asyncio.Protocol):
    """One request after the other, each read to the end of its body."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._held = transport, bytearray()

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._held[:end]).lower()
            _, _, length = head.partition(b"content-length:")
            stop = end + 4 + (int(length.split(b"\r\n", 1)[0]) if length else 0)
            if len(self._held) < stop:
                return
            body = bytes(self._held[end + 4 : stop])
            del self._held[:stop]
            asked = _MODELS if head.startswith(b"get") else _WHOLE
            streams = b'"stream":true' in body or b'"stream": true' in body
            self._transport.write(_STREAM if streams else asked)


async def _serve(port: Connection) -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0)
    port.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _main(port: Connection) -> None:
    asyncio.run(_serve(port))


@contextmanager
def noop_server() -> Iterator[str]:
    """Its root address; it runs in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, its = spawn.Pipe()
    process = spawn.Process(target=_main, args=(its,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()
