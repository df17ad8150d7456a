"""Takes copies of users' requests from a proxy. Every copy is answered 204 at once; what comes too fast is counted.

Nothing here may slow a user down: the proxy waits for no verdict, only for a body to be read. Copies wait in a queue
that is bounded in number and in bytes, until the canary asks for them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO, cast

from vllm_gate.errors import UsageError
from vllm_gate.traffic.chunked import read_chunked
from vllm_gate.traffic.mirrored import SESSION_HEADERS, Copy, request_of
from vllm_gate.traffic.request import Skipped, Tally, TrafficRequest

BODY_LIMIT = 16 * 2**20
"""Bytes of one request."""
QUEUE_COPIES = 2_000
QUEUE_BYTES = 64 * 2**20
CONNECTIONS = 256
"""Open at a time: each has a thread."""
_PATIENCE_S = 10.0
"""Seconds that a connection may be silent in the middle of a request."""
_IDLE_S = 0.05
"""Seconds after which the canary is told that there is nothing at the moment."""


class MirrorListener:
    """See `TrafficSource`. Listens from the start, and keeps copies while the canary takes them.

    Raises UsageError when the address can't be listened on.
    """

    repeatable = False

    def __init__(self, listen: str, *, most_copies: int = QUEUE_COPIES, most_bytes: int = QUEUE_BYTES) -> None:
        self.tally = Tally()
        self._most_copies, self._most_bytes = most_copies, most_bytes
        self._queue: deque[Copy] = deque()
        self._bytes = self._copies = 0
        self._taking = False
        self._changed = threading.Condition()
        self._server = _listening(listen, self)
        host, self.port = self._server.server_address[:2]
        self.address = f"{_text(host)}:{self.port}"
        self.name = f"the mirror at {self.address}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    def requests(self) -> Generator[TrafficRequest | None]:
        """See `TrafficSource`. Ends only when it is closed."""
        self._taking = True
        try:
            while True:
                copy = self._next()
                found = request_of(copy) if copy else None
                if isinstance(found, Skipped):
                    self.skip(found)
                    continue
                self.tally.requests += found is not None
                yield found
        finally:
            self._taking = False

    def take(self, path: str, content: bytes, session: str) -> None:
        """Queue a copy, or count it as one for which there was no room."""
        with self._changed:
            self._copies += 1
            if not self._taking:
                self.tally.skip(Skipped("it came while no canary was asking"))
            elif len(self._queue) >= self._most_copies or self._bytes + len(content) > self._most_bytes:
                self.tally.skip(Skipped("it came faster than the canary asks, and the queue was full"))
            else:
                self._queue.append(Copy(self._copies, path, content, session))
                self._bytes += len(content)
                self._changed.notify()

    def skip(self, skipped: Skipped) -> None:
        """Count a copy that is not replayed."""
        with self._changed:
            self.tally.skip(skipped)

    def health(self) -> bytes:
        """For a proxy's health check, and for a person: how many copies came, and how many wait."""
        with self._changed:
            lines = [("copies", self._copies), ("waiting", len(self._queue)), *sorted(self.tally.skipped.items())]
        return "".join(f"{count} {what}\n" for what, count in lines).encode()

    def close(self) -> None:
        """Listen no longer. Copies that still wait are given up."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _next(self) -> Copy | None:
        with self._changed:
            if not self._queue:
                self._changed.wait(_IDLE_S)
            if not self._queue:
                return None
            copy = self._queue.popleft()
            self._bytes -= len(copy.content)
            return copy


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], mirror: MirrorListener) -> None:
        self.mirror = mirror
        self._free = threading.Semaphore(CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A connection too many is closed at once: the proxy takes that for a dead listener, and goes on."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.mirror.skip(Skipped("too many connections at a time"))
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A proxy that hangs up is no event."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "vllm-gate", ""
    timeout = _PATIENCE_S
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        try:
            content = _content(self.headers, cast("BinaryIO", self.rfile))
        except ValueError as problem:
            self.server.mirror.skip(Skipped(f"a copy that could not be read: {problem}", bad=True))
            self.close_connection = True  # where the next request begins is not known
            self._answer(400)
            return
        self._answer(204)
        session = next(filter(None, (self.headers.get(name) for name in SESSION_HEADERS)), "")
        self.server.mirror.take(self.path, content, session)

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(200, self.server.mirror.health())
        else:
            self.server.mirror.skip(Skipped("a GET"))
            self._answer(204)

    def log_message(self, *args: Any) -> None:
        """Nothing: the proxy keeps the access log."""

    def _answer(self, status: int, content: bytes = b"") -> None:
        self.send_response_only(status)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)


def _content(headers: Message, stream: BinaryIO) -> bytes:
    """The body. Raises ValueError when it is damaged, cut off, or too long."""
    if (headers.get("Transfer-Encoding") or "").lower() == "chunked":
        return read_chunked(stream, BODY_LIMIT)
    given = headers.get("Content-Length") or "0"
    if not given.isascii() or not given.isdigit():
        raise ValueError("no length")
    if int(given) > BODY_LIMIT:
        raise ValueError(f"a body of more than {BODY_LIMIT} bytes")
    content = stream.read(int(given))
    if len(content) < int(given):
        raise ValueError("a body that was cut off")
    return content


def _listening(listen: str, mirror: MirrorListener) -> _Server:
    host, _, port = listen.rpartition(":")
    try:
        return _Server((host or "127.0.0.1", int(port)), mirror)
    except (OSError, OverflowError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise UsageError(
            f"{listen}: can't be listened on: {why}", hint="write HOST:PORT, as in 127.0.0.1:9400, with a free port"
        ) from problem


def _text(host: object) -> str:
    return host.decode() if isinstance(host, bytes | bytearray) else str(host)
