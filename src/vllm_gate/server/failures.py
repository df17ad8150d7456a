"""Why no HTTP answer came: exceptions of urllib3 and below, told in stable words."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator

REFUSED, RESET, CLOSED, TIMEOUT, DNS, TLS = "refused", "reset", "closed", "timeout", "dns", "tls"
FORBIDDEN = "forbidden"
"""The values of `NoAnswer.reason`. `reset`: no byte of an answer came; `closed`: an answer broke off;
`forbidden`: not sent, for the key must not go there."""

HINTS = {
    REFUSED: "is the server up, and does it listen on that address and port?",
    RESET: "the server closed the connection: its log says whether it died",
    CLOSED: "the server, or a proxy before it, closed the connection half-way: their logs say why",
    TIMEOUT: "is the server overloaded or stuck? raise timeout_sec of the service only if it is merely slow",
    DNS: "check the host name in base_url; inside a container, names of the host are not known",
    TLS: "check the certificate; a private CA goes into REQUESTS_CA_BUNDLE",
    FORBIDDEN: "",
}
_TLS_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""A connection that was cut, inside TLS: no matter of certificates."""
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL)


def explain(error: BaseException, *, limit_s: float, answering: bool) -> tuple[str, str]:
    """The reason and a sentence. `answering`: the answer's headers had come before the connection failed."""
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return DNS, "the host name does not resolve"
    for cause in causes:
        if isinstance(cause, FileNotFoundError):
            return TLS, "the CA bundle that REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE names is not there"
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, _TLS_CUT):
            why = getattr(cause, "verify_message", None) or getattr(cause, "reason", None) or cause
            return TLS, f"TLS failed: {why}"
        if isinstance(cause, ConnectionRefusedError):
            return REFUSED, "connection refused"
        if isinstance(cause, OSError) and cause.errno in _UNREACHABLE:
            return REFUSED, "the host is unreachable"
    if any(isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__ for cause in causes):
        return TIMEOUT, f"no {'complete ' if answering else ''}answer within {limit_s:g} s"
    if answering:
        return CLOSED, "the connection broke in the middle of the answer"
    return RESET, "the server closed the connection without an answer"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and everything it was raised from, wraps as an argument or names as its `reason`."""
    todo, seen = [error], set[int]()
    while todo:
        current = todo.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        linked = (current.__cause__, current.__context__, getattr(current, "reason", None), *current.args)
        todo += [link for link in linked if isinstance(link, BaseException)]
