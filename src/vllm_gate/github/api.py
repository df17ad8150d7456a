"""GitHub's REST API for one repository: patient where waiting helps, and clear about what is missing where not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import requests

from vllm_gate import __version__
from vllm_gate.core.printable import excerpt
from vllm_gate.core.secret import Redactor, Secret
from vllm_gate.github.errors import Denied, Invalid, Unavailable
from vllm_gate.github.rate_limit import wait_for

API_VERSION = "2022-11-28"
BODY_LIMIT = 8 * 2**20
"""Bytes of an answer. The largest that is asked for, a file of 1 MB in base64, is far below."""
_TRIES = 4
_BACK_OFF_S = 1.0
_SPENT_S = 3.0
"""For each request once patience has run out: GitHub may be back, and nobody waits long to see."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful one; `data` is its JSON, None where there is no body."""

    status: int
    data: object


class GitHubApi:
    """Asks with `token`. What is waited for, and what goes into requests that fail, stays near `patience_s` seconds
    over the life of this object: a dead API must not hold a verdict back. Later requests get one short try each.

    `now` is monotonic seconds, `utc` epoch seconds. Every method raises Denied, Invalid or Unavailable.
    """

    def __init__(
        self,
        api_url: str,
        repository: str,
        token: Secret,
        *,
        now: Callable[[], float],
        utc: Callable[[], float],
        sleep: Callable[[float], None],
        patience_s: float = 120.0,
        timeout_s: float = 10.0,
    ) -> None:
        self._root = f"{api_url.rstrip('/')}/repos/{repository}"
        self._mask = Redactor([token])
        self._now, self._utc, self._sleep = now, utc, sleep
        self._patience_s, self._timeout_s = patience_s, timeout_s
        self._session = requests.Session()
        self._session.trust_env = True  # proxies and REQUESTS_CA_BUNDLE, as companies need them
        self._session.auth = _Bearer(token)
        self._session.headers.update(
            {
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": API_VERSION,
                "User-Agent": f"vllm-gate/{__version__}",
            }
        )

    def get(self, path: str, *, hurry_s: float | None = None, **params: str | int) -> Answer:
        """`path` is relative to the repository: `/check-runs`. For `hurry_s` see `patch`."""
        return self._ask("GET", path, params=params, hurry_s=hurry_s)

    def post(self, path: str, body: Mapping[str, Any], *, already: Callable[[], Answer | None] | None = None) -> Answer:
        """Sent once where the outcome is unknown (no answer, 5xx), since a second might do it twice.

        `already` looks whether the first try had worked: with it, the request is sent again only if it had not.
        """
        return self._ask("POST", path, body=body, already=already)

    def patch(self, path: str, body: Mapping[str, Any], *, hurry_s: float | None = None) -> Answer:
        """With `hurry_s`, one try of at most that many seconds."""
        return self._ask("PATCH", path, body=body, hurry_s=hurry_s)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
        already: Callable[[], Answer | None] | None = None,
        hurry_s: float | None = None,
    ) -> Answer:
        what = f"{method} {path or '/'}"
        for attempt in range(_TRIES):
            spent = self._patience_s <= 0
            limit_s = hurry_s or (min(_SPENT_S, self._timeout_s) if spent else self._timeout_s)
            started = self._now()
            got = self._send(method, path, params, body, limit_s)
            if isinstance(got, _Raw) and got.status < 300:
                return Answer(got.status, got.json())
            message, details = _words(got, self._mask) if isinstance(got, _Raw) else (got, ())
            if isinstance(got, _Raw) and got.status < 500:
                wait = wait_for(got.status, got.headers, message, attempt=attempt, utc=self._utc())
                if wait is None:
                    raise _refusal(got.status, what, message, details)
            else:
                self._patience_s -= self._now() - started
                done = already() if already else None
                if done is not None:
                    return done
                if method == "POST" and already is None:
                    raise Unavailable(f"{what}: {message}; whether GitHub did it is unknown")
                wait = _BACK_OFF_S * 2.0**attempt
            if hurry_s is not None or spent or attempt + 1 == _TRIES or not self._wait(wait):
                break
        raise Unavailable(f"{what}: {message}", hint="see GitHub's status page; the verdict does not depend on it")

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str | int] | None,
        body: Mapping[str, Any] | None,
        timeout_s: float,
    ) -> _Raw | str:
        """The answer, or why there is none."""
        try:
            with self._session.request(
                method,
                self._root + path,
                params=params,
                data=None if body is None else json.dumps(body).encode(),
                headers={} if body is None else {"Content-Type": "application/json"},
                timeout=timeout_s,
                allow_redirects=False,
                stream=True,
            ) as answer:
                return _Raw(answer.status_code, answer.headers, _bounded(answer))
        except requests.RequestException as problem:
            return self._mask(f"no answer from {self._root.split('/repos/')[0]}: {type(problem).__name__}")

    def _wait(self, seconds: float) -> bool:
        """Wait, unless patience would run out."""
        if seconds > self._patience_s:
            return False
        started = self._now()
        self._sleep(seconds)
        self._patience_s -= max(self._now() - started, seconds)
        return True


class _Bearer(requests.auth.AuthBase):
    """The token as a header. As `auth`, so that no ~/.netrc of the runner replaces it."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token.reveal().strip()}"
        return request


def _bounded(answer: requests.Response) -> bytes:
    """At most about `BODY_LIMIT` bytes of the body."""
    body = bytearray()
    for piece in answer.iter_content(64 * 1024):
        body += piece
        if len(body) > BODY_LIMIT:
            break
    return bytes(body)


@dataclass(frozen=True, slots=True)
class _Raw:
    """An answer as it came; `headers` are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def _words(got: _Raw, mask: Redactor) -> tuple[str, tuple[str, ...]]:
    """GitHub's message and reasons; the reasons are objects in one of its two shapes, plain texts in the other."""
    data = got.json()
    if not isinstance(data, dict):
        return f"HTTP {got.status}: {excerpt(mask(got.body[:500].decode(errors='replace')), 200)}", ()
    reasons = data.get("errors")
    details = tuple(
        " ".join(str(reason[key]) for key in ("resource", "field", "code", "message") if reason.get(key))
        if isinstance(reason, dict)
        else str(reason)
        for reason in (reasons if isinstance(reasons, list) else [])
    )
    return mask(f"HTTP {got.status}: {excerpt(str(data.get('message')), 300)}"), tuple(map(mask, details))


_PERMISSIONS = {
    "check-runs": "checks: write",
    "dispatches": "actions: write",
    "runs": "actions: read",
    "contents": "contents: read",
}


def _refusal(status: int, what: str, message: str, details: tuple[str, ...]) -> Denied | Invalid | Unavailable:
    told = f"{what}: {message}" + (f" ({'; '.join(details)})" if details else "")
    if status == 401:
        return Denied(told, hint="the token is wrong or over: that of a GitHub App lives for an hour")
    if status in (403, 404):
        return Denied(told, hint=_missing(what))
    if status in (400, 422):
        return Invalid(told, details=details)
    return Unavailable(told)


def _missing(what: str) -> str:
    needed = next((permission for part, permission in _PERMISSIONS.items() if part in what), "contents: read")
    hint = f"the job needs `permissions: {needed}`; the token of a fork's pull request is read-only whatever it says"
    return f"{hint}, and a personal access token can't make check runs" if "check-runs" in what else hint
