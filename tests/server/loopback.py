"""A server on loopback that answers byte for byte as a test says, however wrong that is."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Self


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came; `connection` counts accepted connections from 1."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = bytes | Iterable[bytes | float]
"""Bytes: sent whole, the connection kept. Pieces: sent one by one (a float: seconds of silence), then closed."""


def http(body: bytes | object = b"", status: int = 200, **headers: str) -> bytes:
    """A whole answer: bytes as they are, anything else as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = {"Content-Length": str(len(content)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in head.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def sse(*events: object, done: bool = True) -> list[bytes | float]:
    """A stream of server-sent events, one piece each, that ends with the connection."""
    pieces = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    pieces += [b"[DONE]"] if done else []
    return [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n",
        *(b"data: " + piece + b"\n\n" for piece in pieces),
    ]


def chat(text: str = "OK", **fields: object) -> dict[str, Any]:
    """A chat completion's body."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"model": "m", "choices": [choice], **fields}


class Loopback:
    """Calls `respond` for each request; `requests` holds what came."""

    def __init__(self, respond: Callable[[Request], Answer]) -> None:
        self._respond = respond
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.requests: list[Request] = []
        self.port: int = self._listener.getsockname()[1]
        self.root = f"http://127.0.0.1:{self.port}"
        self.base_url = f"{self.root}/v1"

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, len(self._open)), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError, ValueError), connection.makefile("rb") as incoming:  # ValueError: no HTTP at all
            while (request := _read(incoming, number)) and self._send(connection, request):
                pass
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _send(self, connection: socket.socket, request: Request) -> bool:
        self.requests.append(request)
        answer = self._respond(request)
        if isinstance(answer, bytes):
            connection.sendall(answer)
            return True
        for piece in answer:
            if isinstance(piece, bytes):
                connection.sendall(piece)
            elif self._stop.wait(piece):
                break
        return False


def _read(incoming: BinaryIO, connection: int) -> Request | None:
    first = incoming.readline().decode().split()
    if len(first) < 2:
        return None
    headers: dict[str, str] = {}
    while line := incoming.readline().strip().decode():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = incoming.read(int(headers.get("content-length", 0)))
    return Request(first[0], first[1], headers, body, connection)
