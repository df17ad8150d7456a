"""HTTP for the simulated server: routes, keys, JSON, server-sent events."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from vllm_gate.simulator import messages
from vllm_gate.simulator.requests import NONFINITE, BadRequest
from vllm_gate.simulator.wire import error_body

Route = Callable[[Mapping[str, Any]], "Body"]
_MOST_BYTES = 64 * 2**20


class Body:
    """An answer: JSON, plain text, or a stream of events (an iterable of JSON values)."""

    def __init__(self, value: Any = None, *, text: str | None = None, events: Iterable[Any] | None = None) -> None:
        self.value = value
        self.text = text
        self.events = events


class HttpServer(ThreadingHTTPServer):
    """Serves routes `METHOD /path`. `stopping` is set when the server closes, for routes that wait."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], routes: Mapping[str, Route], api_key: str) -> None:
        self.routes = routes
        self.api_key = api_key
        self.stopping = threading.Event()
        self.requests = 0
        super().__init__(address, _Handler, bind_and_activate=False)
        try:
            self.server_bind()
        except (OSError, OverflowError):
            self.server_close()
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no event."""


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def log_message(self, *args: Any) -> None:
        """Nothing: the access log is of no use here."""

    def _handle(self) -> None:
        self.server.requests += 1
        content = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), _MOST_BYTES))
        try:
            self._send(self._route(content))
        except BadRequest as error:
            self._send_json(error.status, self._error(error))
        except (TypeError, ValueError, LookupError, AttributeError) as error:  # a body with values of odd types
            self._send_json(500, self._error(BadRequest(500, str(error), kind="InternalServerError")))
        except _Plain as plain:
            self._send_json(plain.status, {"detail": plain.detail})

    def _route(self, content: bytes) -> Body:
        path = urlsplit(self.path).path
        route = self.server.routes.get(f"{self.command} {path}")
        if route is None:
            known = any(key.endswith(f" {path}") for key in self.server.routes)
            raise _Plain(405, "Method Not Allowed") if known else _Plain(404, "Not Found")
        if self.server.api_key and path.startswith("/v1") and not self._authorized():
            raise BadRequest(401, "Unauthorized", kind="Unauthorized")
        return route(_parsed(content) if self.command == "POST" else {})

    def _error(self, error: BadRequest) -> dict[str, Any]:
        anthropic = urlsplit(self.path).path == "/v1/messages"
        return messages.error(error.status, error.message) if anthropic else error_body(error)

    def _authorized(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return self.server.api_key in (given, self.headers.get("x-api-key", ""))

    def _send(self, body: Body) -> None:
        if body.events is not None:
            self._send_events(body.events)
        elif body.text is not None:
            self._send_bytes(200, body.text.encode(), "text/plain; charset=utf-8")
        else:
            self._send_json(200, body.value)

    def _send_json(self, status: int, value: Any) -> None:
        try:
            content = b"" if value is None else json.dumps(value, allow_nan=False).encode()
        except ValueError:
            raise NONFINITE from None
        self._send_bytes(status, content, "application/json")

    def _send_bytes(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def _send_events(self, events: Iterable[Any]) -> None:
        """Chunked server-sent events. An error before the first event is an HTTP error, later ones are events."""
        iterator = iter(events)
        first = next(iterator, None)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            if first is not None:
                self._send_event(first)
            for event in iterator:
                self._send_event(event)
        except BadRequest as error:
            self._send_event(self._error(error))
        self._send_event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _send_event(self, event: Any) -> None:
        """A text is sent as it stands; a pair is an event's name and its value. NaN becomes null, as in vLLM."""
        name, value = event if isinstance(event, tuple) else ("", event)
        data = value if isinstance(value, str) else json.dumps(_without_nan(value))
        content = (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()


class _Plain(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _parsed(content: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(content)
    except ValueError as error:
        at = getattr(error, "pos", 0)
        message = f"1 validation error:\n  {{'type': 'json_invalid', 'loc': 'body.{at}', 'msg': 'JSON decode error'}}"
        raise BadRequest(400, message, kind="Bad Request", param=f"body.{at}") from None
    if not isinstance(body, dict):
        message = "1 validation error:\n  {'type': 'dict_type', 'loc': 'body'}"
        raise BadRequest(400, message, kind="Bad Request", param="body")
    return body
