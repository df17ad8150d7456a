"""Sends one message to the webhook, signed as its receiver asks. A failure is told, never raised."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus

import requests

from vllm_gate.core.printable import excerpt
from vllm_gate.core.secret import Redactor, Secret

TRIES = 3
TIMEOUT_S = 10.0
SIGNATURE = "X-Vllm-Gate-Signature-256"
"""`sha256=` and the HMAC-SHA256 of the body in hex, as in GitHub's own `X-Hub-Signature-256`."""
DELIVERY = "X-Vllm-Gate-Delivery"
"""The same for every try, so that a receiver can drop the second."""


def send(
    url: Secret,
    body: Mapping[str, Any],
    *,
    style: str,
    secret: Secret | None,
    delivery: str,
    utc: Callable[[], float],
    sleep: Callable[[float], None],
) -> str:
    """Post `body`; "" when the receiver took it, else one sentence without the address. `utc` is epoch seconds."""
    why = ""
    for attempt in range(TRIES):
        if attempt:
            sleep(2.0**attempt)
        # Signed anew each time: the chats refuse an old timestamp.
        address, content, headers = _signed(url.reveal(), body, style, secret, utc())
        try:
            answer = requests.post(
                address,
                data=content,
                headers={**headers, DELIVERY: delivery, "Content-Type": "application/json; charset=utf-8"},
                timeout=TIMEOUT_S,
                allow_redirects=False,
            )
        except requests.RequestException as problem:
            why = f"no answer from the webhook: {type(problem).__name__}"
            continue
        why = _refused(answer, _mask(url, secret))
        if not (answer.status_code == 429 or answer.status_code >= 500):
            return why
    return f"{why} ({TRIES} tries)"


def _mask(url: Secret, secret: Secret | None) -> Redactor:
    """Hides the address, and what follows the host in it, which is what a receiver would repeat."""
    inside = url.reveal().partition("://")[2].partition("/")[2]
    return Redactor([url, Secret(inside), *([secret] if secret else [])])


def _refused(answer: requests.Response, mask: Redactor) -> str:
    """Why this is no success. Feishu and DingTalk answer 200 to what they refuse, and say so in the body."""
    text = mask(answer.text[:500])
    if not 200 <= answer.status_code < 300:
        return f"the webhook answered HTTP {answer.status_code}: {excerpt(text, 200)}"
    try:
        told = answer.json()
    except ValueError:
        return ""
    code = told.get("code", told.get("errcode", 0)) if isinstance(told, dict) else 0
    return f"the webhook refused the message: {excerpt(text, 200)}" if code not in (0, "0", None) else ""


def _signed(
    url: str, body: Mapping[str, Any], style: str, secret: Secret | None, now: float
) -> tuple[str, bytes, dict[str, str]]:
    """Address, content and headers. Feishu signs in the body, DingTalk in the address, the others in a header."""
    key = secret.reveal() if secret else ""
    if style == "feishu" and key:
        stamp = str(int(now))
        return url, _encode({**body, "timestamp": stamp, "sign": _mac(f"{stamp}\n{key}", "")}), {}
    if style == "dingtalk" and key:
        stamp = str(int(now * 1000))
        separator = "&" if "?" in url else "?"
        sign = quote_plus(_mac(key, f"{stamp}\n{key}"))
        return f"{url}{separator}timestamp={stamp}&sign={sign}", _encode(body), {}
    content = _encode(body)
    headers = {SIGNATURE: f"sha256={hmac.new(key.encode(), content, hashlib.sha256).hexdigest()}"} if key else {}
    return url, content, headers


def _mac(key: str, message: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), message.encode(), hashlib.sha256).digest()).decode()


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()
