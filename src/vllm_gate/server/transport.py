"""The only place that opens a connection to a server. Bounded in time, size and retries; keys never leave their host.

A retry is made only where it can't hide a fault: a GET whose connection was refused or reset before any byte of an
answer, and an answer of 429 or 503 that names the time to come back. A generation that timed out, broke off, or was
answered 400 or 500 is evidence.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from vllm_gate import __version__
from vllm_gate.core.secret import MASK, Redactor, Secret
from vllm_gate.errors import NoAnswer, UnusableAnswer
from vllm_gate.server.failures import FORBIDDEN, HINTS, REFUSED, RESET, TIMEOUT, explain
from vllm_gate.server.sse import event_data

if TYPE_CHECKING:  # its import takes time that `--version` must not wait for
    import urllib3

CONNECT_TIMEOUT_S = 10.0
BODY_LIMIT = 64 * 2**20
"""Bytes of one answer that are read. Prompt logprobs of 2,000 positions take about 4 MiB."""
_LONGEST_WAIT_S = 30.0
_RETRIES = 2


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole HTTP answer, whatever its status. The key, should the server repeat it, is masked in it."""

    status: int
    body: bytes
    elapsed_s: float
    headers: Mapping[str, str] = field(default_factory=dict)


class EventStream(Protocol):
    """An HTTP answer whose body is read as server-sent events."""

    status: int
    content_type: str

    def events(self) -> Iterator[tuple[float, bytes]]:
        """(seconds since the request, data) of each event. Raises NoAnswer when the stream breaks off."""
        ...

    def whole(self) -> HttpAnswer:
        """The body altogether, for an answer that is no stream (an error)."""
        ...


class Transport(Protocol):
    """What the clients need of the network. `url` is absolute; `body` is sent as JSON."""

    retries: int
    """How many requests were sent again."""

    def get(self, url: str, *, timeout_s: float | None = None, once: bool = False) -> HttpAnswer:
        """`once`: no retry, for a caller who polls."""
        ...

    def post(self, url: str, body: Mapping[str, object]) -> HttpAnswer: ...

    def stream(self, url: str, body: Mapping[str, object]) -> AbstractContextManager[EventStream]: ...


class HttpTransport:
    """`Transport` over urllib3: one pool of kept-alive connections, safe to use from several threads.

    `headers` carry the key. `timeout_s` bounds each silence and, looked at after every read, the whole answer, be it
    streamed or not: a server that trickles is stopped too, after at most twice that time.
    """

    def __init__(
        self,
        *,
        service: str,
        headers: Mapping[str, str],
        secret: Secret | None,
        timeout_s: float,
        allowed_hosts: frozenset[str] | None = None,
        body_limit: int = BODY_LIMIT,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service = service
        # Asked for as it is: compressed, a stream's first token would wait for others.
        self._headers = {"User-Agent": f"vllm-gate/{__version__}", "Accept-Encoding": "identity", **headers}
        self._secret = secret
        self._mask = Redactor([secret] if secret else [])
        key = secret.reveal().strip() if secret else ""
        self._key = key.encode() if self._mask(key) != key else b""
        self._timeout_s = timeout_s
        self._allowed_hosts = allowed_hosts
        self._body_limit = body_limit
        self._sleep = sleep
        self._pool: urllib3.PoolManager | None = None
        self._lock = threading.Lock()
        self.retries = 0

    def get(self, url: str, *, timeout_s: float | None = None, once: bool = False) -> HttpAnswer:
        """Raises NoAnswer and UnusableAnswer (a redirect, or a body too large)."""
        with self._exchange("GET", url, None, timeout_s or self._timeout_s, once=once) as answer:
            return answer.whole()

    def post(self, url: str, body: Mapping[str, object]) -> HttpAnswer:
        """Raises NoAnswer and UnusableAnswer (a redirect, or a body too large)."""
        with self._exchange("POST", url, body, self._timeout_s) as answer:
            return answer.whole()

    @contextmanager
    def stream(self, url: str, body: Mapping[str, object]) -> Iterator[EventStream]:
        """The answer to a POST, read event by event. Raises NoAnswer and UnusableAnswer."""
        with self._exchange("POST", url, body, self._timeout_s) as answer:
            yield answer

    @contextmanager
    def _exchange(
        self, method: str, url: str, body: Mapping[str, object] | None, limit_s: float, *, once: bool = False
    ) -> Iterator[_Incoming]:
        """The headers' answer, after such retries as hide nothing."""
        for attempt in range(_RETRIES + 1):
            last = once or attempt == _RETRIES
            started = time.monotonic()
            try:
                response = self._send(method, url, body, limit_s)
            except NoAnswer as failure:
                if last or method != "GET" or failure.reason not in (REFUSED, RESET):
                    raise
                self._back_off(0.2 * 2**attempt)
                continue
            with response:
                wait_s = None if last else _asked_to_wait(response)
                if wait_s is None:
                    yield _Incoming(response, self, started=started, limit_s=limit_s, limit=self._body_limit, url=url)
                    return
            self._back_off(wait_s)

    def _send(
        self, method: str, url: str, body: Mapping[str, object] | None, limit_s: float
    ) -> urllib3.BaseHTTPResponse:
        import urllib3

        self._check_host(urlsplit(url).hostname or "")
        with self.translated(url, limit_s, answering=False):
            response = self._connected().request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers=self._headers | ({"Content-Type": "application/json"} if body is not None else {}),
                timeout=urllib3.Timeout(connect=min(CONNECT_TIMEOUT_S, limit_s), read=limit_s),
                preload_content=False,
                redirect=False,
                retries=False,
            )
        if location := response.get_redirect_location():
            response.close()
            target = location.partition("?")[0]  # a query may hold what is nobody's business
            raise UnusableAnswer(
                self.masked(f"{self._service}: {url} redirects to {target}")
                + "; vllm-gate follows no redirect, because the key would go along",
                hint="set base_url to where the API really is",
            )
        return response

    def _check_host(self, host: str) -> None:
        if self._secret and self._allowed_hosts is not None and host not in self._allowed_hosts:
            raise NoAnswer(
                f"{self._service}: {host} is not among the allowed hosts, so no key is sent there",
                reason=FORBIDDEN,
                hint=f"add {host} to allowed-hosts if it is yours, or correct base_url",
            )

    def _connected(self) -> urllib3.PoolManager:
        with self._lock:
            if self._pool is None:
                self._pool = _new_pool()
            return self._pool

    def _back_off(self, seconds: float) -> None:
        with self._lock:
            self.retries += 1
        self._sleep(seconds)

    @contextmanager
    def translated(self, url: str, limit_s: float, *, answering: bool) -> Iterator[None]:
        """What urllib3 raises, as NoAnswer. Its words are not repeated: they may hold the key."""
        import urllib3

        try:
            yield
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.no_answer(url, *explain(error, limit_s=limit_s, answering=answering)) from None

    def no_answer(self, url: str, reason: str, sentence: str) -> NoAnswer:
        return NoAnswer(self.masked(f"{self._service}: {url}: {sentence}"), reason=reason, hint=HINTS[reason])

    def masked(self, text: str) -> str:
        return self._mask(text)

    def masked_bytes(self, data: bytes) -> bytes:
        """`data` without the key: some servers repeat a wrong key in their error."""
        return data.replace(self._key, MASK.encode()) if self._key else data


class _Incoming:
    """See `EventStream`: an answer whose headers have come."""

    def __init__(
        self,
        response: urllib3.BaseHTTPResponse,
        transport: HttpTransport,
        *,
        started: float,
        limit_s: float,
        limit: int,
        url: str,
    ) -> None:
        self._response = response
        self._transport = transport
        self._started = started
        self._limit_s = limit_s
        self._limit = limit
        self._url = url
        self.status = response.status
        self.content_type = response.headers.get("Content-Type", "")

    def events(self) -> Iterator[tuple[float, bytes]]:
        for data in event_data(self._chunks()):
            yield self._elapsed(), self._transport.masked_bytes(data)

    def whole(self) -> HttpAnswer:
        body = self._transport.masked_bytes(b"".join(self._chunks()))
        headers = {name: self._transport.masked(value) for name, value in self._response.headers.items()}
        return HttpAnswer(self.status, body, self._elapsed(), headers)

    def _chunks(self) -> Iterator[bytes]:
        """The body as it arrives. Each read returns what is there, so that the time and size are really looked at."""
        size = 0
        with self._transport.translated(self._url, self._limit_s, answering=True):
            while chunk := self._response.read1(1 << 16, decode_content=True):
                size += len(chunk)
                if size > self._limit:
                    raise UnusableAnswer(f"{self._url} answers with more than {self._limit / 2**20:g} MiB")
                if self._elapsed() > self._limit_s:
                    raise self._transport.no_answer(
                        self._url, TIMEOUT, f"no complete answer within {self._limit_s:g} s"
                    )
                yield chunk

    def _elapsed(self) -> float:
        return time.monotonic() - self._started


def _asked_to_wait(response: urllib3.BaseHTTPResponse) -> float | None:
    """Seconds after which a busy server wants to be asked again; None when it names none, or too long a time."""
    wait = response.headers.get("Retry-After", "")
    if response.status not in (429, 503) or not (wait.isascii() and wait.isdigit()):
        return None
    return float(wait) if float(wait) <= _LONGEST_WAIT_S else None


def _new_pool() -> urllib3.PoolManager:
    """Without requests above it, which takes as long again as the request itself (bench/replay_client.py).

    No proxy and no netrc of the runner's is read: they must not see or change what is judged.
    """
    import os

    import certifi
    import urllib3

    # A private CA, named the way requests' users know.
    trusted = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or certifi.where()
    place = "ca_cert_dir" if Path(trusted).is_dir() else "ca_certs"
    return urllib3.PoolManager(4, maxsize=64, cert_reqs="CERT_REQUIRED", **{place: trusted})  # type: ignore[arg-type]
