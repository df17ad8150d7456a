"""Record the requests of a run through a proxy, and replay them with a client that does nothing else.

A replayed request starts as soon as as many answers are complete as when it started in the recording. So the replay
keeps the order and the concurrency of the run, and leaves out all its thinking: its time is the server's own.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One request. `after` is how many answers were complete when it started."""

    root: str
    method: str
    path: str
    body: bytes
    after: int


class _Recorder:
    """What is written down by all proxies of one recording."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self._complete = 0
        self._lock = threading.Lock()

    def begins(self, root: str, method: str, path: str, body: bytes) -> None:
        with self._lock:
            self.sent.append(Sent(root, method, path, body, self._complete))

    def ends(self) -> None:
        with self._lock:
            self._complete += 1


@contextmanager
def recording(*roots: str) -> Iterator[tuple[list[str], list[Sent]]]:
    """Addresses of proxies in front of `roots`, and the list that their requests are written to."""
    recorder = _Recorder()
    proxies = [ThreadingHTTPServer(("127.0.0.1", 0), _handler(root, recorder)) for root in roots]
    for proxy in proxies:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield [f"http://127.0.0.1:{proxy.server_address[1]}" for proxy in proxies], recorder.sent
    finally:
        for proxy in proxies:
            proxy.shutdown()
            proxy.server_close()


def _handler(root: str, recorder: _Recorder) -> type[BaseHTTPRequestHandler]:
    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._forward()

        def do_POST(self) -> None:
            self._forward()

        def log_message(self, *_: object) -> None:
            """Silence."""

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            recorder.begins(root, self.command, self.path, body)
            status, kind, content = _ask(_connection(root), self.command, self.path, body)
            recorder.ends()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Proxy


def replay(sent: Sequence[Sent], *, run: int) -> float:
    """Seconds. `run` makes cache salts new, so that no replay finds another run's prefixes in the cache."""
    progress = threading.Condition()
    complete = 0
    mine = threading.local()

    def ask(request: Sent) -> None:
        nonlocal complete
        connections = mine.__dict__.setdefault("connections", {})
        body = re.sub(rb'("cache_salt": ?")', rb"\g<1>%d-" % run, request.body)
        try:
            try:
                connection = connections.setdefault(request.root, _connection(request.root))
                _ask(connection, request.method, request.path, body)
            except (http.client.HTTPException, ConnectionError):
                # The server closes a connection that was idle for a few seconds.
                connections[request.root] = _connection(request.root)
                _ask(connections[request.root], request.method, request.path, body)
        finally:
            with progress:
                complete += 1
                progress.notify_all()

    asked = []
    start = time.monotonic()
    with ThreadPoolExecutor(64) as pool:
        for request in sent:
            due = request.after
            with progress:
                while complete < due:
                    progress.wait()
            asked.append(pool.submit(ask, request))
        for done in asked:
            done.result()
    return time.monotonic() - start


def _connection(root: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(root).netloc, timeout=_TIMEOUT_S)


def _ask(connection: http.client.HTTPConnection, method: str, path: str, body: bytes) -> tuple[int, str, bytes]:
    connection.request(method, path, body or None, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.getheader("Content-Type", ""), answer.read()
