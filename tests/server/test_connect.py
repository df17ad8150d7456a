"""What a configured service becomes, and which keys can't be sent."""

from __future__ import annotations

import pytest
from tests.server.loopback import Loopback, chat, http

from vllm_gate.core.secret import Secret
from vllm_gate.errors import ConfigError, NoAnswer
from vllm_gate.server.connect import connect
from vllm_gate.server.interface import ConnectedService


def connected(base_url: str, key: str | None = None, **options: frozenset[str]) -> ConnectedService:
    return connect(
        name="baseline",
        base_url=base_url,
        model="m",
        api="openai",
        api_key=None if key is None else Secret(key),
        timeout_s=5,
        **options,
    )


def test_a_service_knows_its_name_model_and_address() -> None:
    service = connected("http://h:8000/v1/")
    assert (service.name, service.model, service.base_url, service.notes) == ("baseline", "m", "http://h:8000/v1", ())


def test_without_a_key_no_authorization_is_sent() -> None:
    for key in (None, "", "\n"):
        with Loopback(lambda _: http(chat())) as server:
            connected(server.base_url, key).chat([], max_tokens=1)
        assert "authorization" not in server.requests[0].headers


def test_the_line_end_that_pasting_leaves_behind_is_no_part_of_a_key() -> None:
    with Loopback(lambda _: http(chat())) as server:
        connected(server.base_url, " sk-12345678\r\n").chat([], max_tokens=1)
    assert server.requests[0].headers["authorization"] == "Bearer sk-12345678"


@pytest.mark.parametrize("key", ["sk-1234\n5678", "sk-世界", "sk-1234\x005678", "sk-1234\r\nX-Other: 1"])
def test_a_key_that_no_header_can_carry_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(ConfigError, match="baseline: the key holds characters") as failure:
        connected("http://127.0.0.1:8000", key)
    assert "sk-" not in str(failure.value) + failure.value.hint


def test_allowed_hosts_reach_the_transport() -> None:
    with Loopback(lambda _: http(chat())) as server:
        service = connected(server.base_url, "sk-12345678", allowed_hosts=frozenset({"other"}))
        with pytest.raises(NoAnswer, match="not among the allowed hosts"):
            service.chat([], max_tokens=1)
    assert server.requests == []


def test_retries_are_told_in_a_note() -> None:
    answers = iter([http(status=429, Retry_After="0"), http(chat())])
    with Loopback(lambda _: next(answers)) as server:
        service = connected(server.base_url)
        service.chat([], max_tokens=1)
    assert service.notes == ("baseline: 1 request sent again (refused, or asked to wait)",)
