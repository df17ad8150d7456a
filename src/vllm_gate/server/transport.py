"""The only place that opens a connection to a server. Bounded in time, size and retries; keys never leave their host.

A retry is made only where it can't hide a fault: a GET whose connection was refused or reset, and an answer of 429 or
503 that names the time to come back. A generation that timed out, or was answered 400 or 500, is evidence.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from vllm_gate import __version__
from vllm_gate.core.secret import Redactor, Secret
from vllm_gate.errors import NoAnswer, UnusableAnswer

if TYPE_CHECKING:  # importing requests takes a quarter of a second, which `--version` must not wait for
    import requests

REFUSED, RESET, TIMEOUT, DNS, TLS, FORBIDDEN = "refused", "reset", "timeout", "dns", "tls", "forbidden"
"""The values of `NoAnswer.reason`."""

CONNECT_TIMEOUT_S = 10.0
BODY_LIMIT = 64 * 2**20
"""Bytes of one answer that are read. Prompt logprobs of 2,000 positions take about 4 MiB."""
_LONGEST_WAIT_S = 30.0
_RETRIES = 2


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole HTTP answer, whatever its status."""

    status: int
    body: bytes
    elapsed_s: float
    headers: Mapping[str, str] = field(default_factory=dict)


class EventStream(Protocol):
    """An HTTP answer whose body is read as server-sent events."""

    status: int

    def events(self) -> Iterator[tuple[float, bytes]]:
        """(seconds since the request, data) of each event. Raises NoAnswer when the stream breaks off."""
        ...

    def rest(self) -> bytes:
        """The whole body, for an answer that is no stream (an error)."""
        ...


class Transport(Protocol):
    """What the clients need of the network. `url` is absolute; `body` is sent as JSON."""

    def get(self, url: str, *, timeout_s: float | None = None) -> HttpAnswer: ...

    def post(self, url: str, body: Mapping[str, object], *, timeout_s: float | None = None) -> HttpAnswer: ...

    def stream(self, url: str, body: Mapping[str, object]) -> AbstractContextManager[EventStream]: ...


class HttpTransport:
    """`Transport` over requests: one pool of kept-alive connections, safe to use from several threads.

    `headers` carry the key and are sent to `host` alone. `timeout_s` bounds the silence between two reads and,
    for answers read whole, the answer altogether.
    """

    def __init__(
        self,
        *,
        service: str,
        headers: Mapping[str, str],
        secret: Secret | None,
        timeout_s: float,
        allowed_hosts: frozenset[str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service = service
        self._headers = {"User-Agent": f"vllm-gate/{__version__}", **headers}
        self._secret = secret
        self._mask = Redactor([secret] if secret else [])
        self._timeout_s = timeout_s
        self._allowed_hosts = allowed_hosts
        self._sleep = sleep
        self._session: requests.Session | None = None
        self.retries = 0
        """How many requests were sent again."""

    def get(self, url: str, *, timeout_s: float | None = None) -> HttpAnswer:
        """Raises NoAnswer and UnusableAnswer (body too large)."""
        for attempt in range(_RETRIES + 1):
            try:
                answer = self._whole("GET", url, None, timeout_s)
            except NoAnswer as failure:
                if failure.reason not in (REFUSED, RESET) or attempt == _RETRIES:
                    raise
                self._back_off(0.2 * 2**attempt)
                continue
            if not self._asked_to_wait(answer, attempt):
                return answer
        raise AssertionError("the last attempt returns or raises")

    def post(self, url: str, body: Mapping[str, object], *, timeout_s: float | None = None) -> HttpAnswer:
        """Raises NoAnswer and UnusableAnswer (body too large)."""
        for attempt in range(_RETRIES + 1):
            answer = self._whole("POST", url, body, timeout_s)
            if not self._asked_to_wait(answer, attempt):
                return answer
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def stream(self, url: str, body: Mapping[str, object]) -> Iterator[EventStream]:
        """The answer to a POST, read event by event. Raises NoAnswer."""
        started = time.monotonic()
        with self._translated(url), self._open("POST", url, body, self._timeout_s) as response:
            yield _Events(response, started)

    def _whole(self, method: str, url: str, body: Mapping[str, object] | None, timeout_s: float | None) -> HttpAnswer:
        limit_s = timeout_s or self._timeout_s
        started = time.monotonic()
        with self._translated(url), self._open(method, url, body, limit_s) as response:
            parts, size = [], 0
            for chunk in response.iter_content(1 << 16):
                size += len(chunk)
                if size > BODY_LIMIT:
                    raise UnusableAnswer(f"{self._service}: {url} answers with more than {BODY_LIMIT >> 20} MiB")
                if time.monotonic() - started > limit_s:
                    raise self._no_answer(url, TIMEOUT, f"no complete answer within {limit_s:g} s")
                parts.append(chunk)
            elapsed = time.monotonic() - started
            return HttpAnswer(response.status_code, b"".join(parts), elapsed, dict(response.headers))

    def _open(self, method: str, url: str, body: Mapping[str, object] | None, timeout_s: float) -> requests.Response:
        host = urlsplit(url).hostname or ""
        if self._secret and self._allowed_hosts is not None and host not in self._allowed_hosts:
            raise NoAnswer(
                f"{self._service}: {host} is not among the allowed hosts, so no key is sent there",
                reason=FORBIDDEN,
                hint=f"add {host} to allowed-hosts if it is yours, or correct base_url",
            )
        response = self._connected().request(
            method,
            url,
            data=None if body is None else json.dumps(body).encode(),
            headers=self._headers | ({"Content-Type": "application/json"} if body is not None else {}),
            timeout=(min(CONNECT_TIMEOUT_S, timeout_s), timeout_s),
            stream=True,
            allow_redirects=False,
        )
        if response.is_redirect:
            response.close()
            target = urlsplit(response.headers["Location"])
            raise UnusableAnswer(
                f"{self._service}: {url} redirects to {target.scheme}://{target.netloc}{target.path}; "
                "vllm-gate follows no redirect, because the key would go along",
                hint="set base_url to where the API really is",
            )
        return response

    def _connected(self) -> requests.Session:
        if self._session is None:
            import requests
            from requests.adapters import HTTPAdapter

            session = requests.Session()
            session.trust_env = False  # a proxy or a netrc of the runner's must not see or change what is judged
            adapter = HTTPAdapter(pool_connections=4, pool_maxsize=64, max_retries=0)
            session.mount("http://", adapter)
            session.mount("https://", adapter)
            session.verify = _certificates()
            self._session = session
        return self._session

    def _asked_to_wait(self, answer: HttpAnswer, attempt: int) -> bool:
        """Whether a busy server named a time to come back, and that time was waited for."""
        wait = answer.headers.get("Retry-After", "")
        if answer.status not in (429, 503) or not wait.isdigit() or attempt == _RETRIES:
            return False
        if float(wait) > _LONGEST_WAIT_S:
            return False
        self._back_off(float(wait))
        return True

    def _back_off(self, seconds: float) -> None:
        self.retries += 1
        self._sleep(seconds)

    @contextmanager
    def _translated(self, url: str) -> Iterator[None]:
        """requests' errors as NoAnswer with a reason; no text of theirs may carry the key."""
        import requests

        try:
            yield
        except requests.exceptions.SSLError as error:
            raise self._no_answer(url, TLS, f"TLS failed: {error}") from None
        except requests.exceptions.Timeout:
            raise self._no_answer(url, TIMEOUT, f"no answer within {self._timeout_s:g} s") from None
        except requests.exceptions.ConnectionError as error:
            reason, sentence = _reason(str(error))
            raise self._no_answer(url, reason, sentence) from None
        except (requests.exceptions.RequestException, OSError) as error:
            raise self._no_answer(url, RESET, f"the connection broke: {type(error).__name__}") from None

    def _no_answer(self, url: str, reason: str, sentence: str) -> NoAnswer:
        return NoAnswer(self._mask(f"{self._service}: {url}: {sentence}"), reason=reason, hint=_HINTS[reason])


class _Events:
    """See `EventStream`."""

    def __init__(self, response: requests.Response, started: float) -> None:
        self._response = response
        self._started = started
        self.status = response.status_code

    def events(self) -> Iterator[tuple[float, bytes]]:
        size = 0
        for line in self._response.iter_lines(1 << 10):
            size += len(line)
            if size > BODY_LIMIT:
                raise UnusableAnswer(f"a stream of more than {BODY_LIMIT >> 20} MiB")
            if line.startswith(b"data:"):
                yield time.monotonic() - self._started, line[5:].strip()

    def rest(self) -> bytes:
        return self._response.raw.read(BODY_LIMIT, decode_content=True) or b""


_HINTS = {
    REFUSED: "is the server up, and does it listen on that address and port?",
    RESET: "the server closed the connection: its log says whether it died",
    TIMEOUT: "is the server overloaded or stuck? raise timeout_sec of the service only if it is merely slow",
    DNS: "check the host name in base_url; inside a container, names of the host are not known",
    TLS: "check the certificate; a private CA goes into REQUESTS_CA_BUNDLE",
    FORBIDDEN: "",
}


def _reason(error: str) -> tuple[str, str]:
    if "NameResolution" in error or "getaddrinfo" in error or "Name or service not known" in error:
        return DNS, "the host name does not resolve"
    if "Connection refused" in error:
        return REFUSED, "connection refused"
    if "timed out" in error:
        return TIMEOUT, "timed out"
    if "unreachable" in error:
        return REFUSED, "the host is unreachable"
    return RESET, "the server closed the connection without an answer"


def _certificates() -> str | bool:
    """A private CA, named the way requests' users know; `trust_env` is off, so it is read here."""
    import os

    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
