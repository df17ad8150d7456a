"""The webhook is signed as each receiver's own documentation says, and its failures are told without its address."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.server.loopback import Answer, Loopback, Request, http

from vllm_gate.core.secret import Secret
from vllm_gate.github.webhook import send

NOW = 1_767_225_600.25


def told(respond: Callable[[Request], Answer], style: str = "json", secret: str = "") -> tuple[str, list[Request]]:
    """What `send` says, and what came."""
    with Loopback(respond) as server:
        said = send(
            Secret(f"{server.root}/hook/planted-token?access_token=planted"),
            {"text": "§"},
            style=style,
            secret=Secret(secret) if secret else None,
            delivery="vllm-gate-42-1",
            utc=lambda: NOW,
            sleep=lambda _: None,
        )
        return said, server.requests


def fine(_: Request) -> Answer:
    return http(b"ok")


def test_an_accepted_message_says_nothing() -> None:
    said, (request,) = told(fine)
    assert said == ""
    assert request.json == {"text": "§"}
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["x-vllm-gate-delivery"] == "vllm-gate-42-1"
    assert "x-vllm-gate-signature-256" not in headers


@pytest.mark.parametrize("style", ["json", "slack"])
def test_the_signature_is_over_the_body_as_it_is_sent(style: str) -> None:
    _, (request,) = told(fine, style, "shared secret")
    headers = {name.lower(): value for name, value in request.headers.items()}
    expected = hmac.new(b"shared secret", request.body, hashlib.sha256).hexdigest()
    assert headers["x-vllm-gate-signature-256"] == f"sha256={expected}"


def test_feishu_signs_in_the_body() -> None:
    _, (request,) = told(fine, "feishu", "SEC")
    key = b"1767225600\nSEC"
    assert request.json["timestamp"] == "1767225600"
    assert request.json["sign"] == base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()


def test_dingtalk_signs_in_the_address() -> None:
    _, (request,) = told(fine, "dingtalk", "SEC")
    query = parse_qs(urlsplit(request.path).query)
    mac = hmac.new(b"SEC", b"1767225600250\nSEC", hashlib.sha256).digest()
    assert query["timestamp"] == ["1767225600250"]
    assert query["sign"] == [base64.b64encode(mac).decode()]
    assert query["access_token"] == ["planted"]


@pytest.mark.parametrize(
    "body", [{"code": 19021, "msg": "sign match fail"}, {"errcode": 310000, "errmsg": "sign not match"}]
)
def test_a_chat_that_refuses_with_200_is_a_failure(body: dict[str, object]) -> None:
    said, requests = told(lambda _: http(body), "feishu")
    assert "refused the message" in said
    assert len(requests) == 1


@pytest.mark.parametrize("body", [b"ok", b"", b'{"code": 0}', b'{"errcode": 0, "errmsg": "ok"}', b"[]"])
def test_what_is_no_refusal_is_a_success(body: bytes) -> None:
    assert told(lambda _: http(body), "dingtalk")[0] == ""


def test_a_busy_receiver_is_tried_again_with_the_same_delivery() -> None:
    seen: list[str] = []

    def busy(request: Request) -> Answer:
        seen.append({name.lower(): value for name, value in request.headers.items()}["x-vllm-gate-delivery"])
        return http(b"", 503) if len(seen) < 3 else http(b"ok")

    assert told(busy)[0] == ""
    assert seen == ["vllm-gate-42-1"] * 3


@pytest.mark.parametrize(
    ("answer", "words", "tries"),
    [(http(b"no such hook", 404), "HTTP 404", 1), (http(b"", 500), "HTTP 500", 3), ([b""], "no answer", 3)],
)
def test_a_failure_is_told_and_never_raised(answer: Answer, words: str, tries: int) -> None:
    said, requests = told(lambda _: answer)
    assert words in said
    assert len(requests) == tries
    assert "planted" not in said


def test_an_answer_that_repeats_the_address_is_masked() -> None:
    said, _ = told(lambda request: http(json.dumps({"url": request.path}).encode(), 400))
    assert "planted" not in said


def test_a_redirect_is_not_followed() -> None:
    said, requests = told(lambda _: http(b"", 307, Location="/elsewhere"))
    assert "HTTP 307" in said
    assert len(requests) == 1
