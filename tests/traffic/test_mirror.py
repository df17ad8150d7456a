"""The listener, over real sockets: every copy is answered at once, and each is replayed or counted."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from vllm_gate.errors import UsageError
from vllm_gate.traffic import mirror as module
from vllm_gate.traffic.mirror import MirrorListener
from vllm_gate.traffic.request import CHAT, TrafficRequest

FULL = "it came faster than the canary asks, and the queue was full"
UNASKED = "it came while no canary was asking"


def body(number: int = 0, **more: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": f"question {number}"}], **more}).encode()


@contextmanager
def listening(**bounds: int) -> Iterator[MirrorListener]:
    with closing(MirrorListener("127.0.0.1:0", **bounds)) as mirror:
        yield mirror


def send(mirror: MirrorListener, *bodies: Any, path: str = CHAT, headers: dict[str, str] | None = None) -> list[int]:
    """Over one connection; the statuses of the answers."""
    with closing(http.client.HTTPConnection("127.0.0.1", mirror.port, timeout=5)) as connection:
        statuses = []
        for content in bodies:
            connection.request("POST", path, content, headers or {})
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        return statuses


def settled(mirror: MirrorListener, line: str) -> str:
    """What /health tells, as soon as it tells `line`: a copy is queued after it was answered."""
    until = time.monotonic() + 5
    while line not in (told := mirror.health().decode()) and time.monotonic() < until:
        time.sleep(0.01)
    return told


def nexts(requests: Iterator[TrafficRequest | None], count: int) -> list[TrafficRequest]:
    found: list[TrafficRequest] = []
    for request in requests:
        found += [request] if request else []
        if len(found) == count:
            break
    return found


def test_copies_come_in_their_order_and_without_their_keys() -> None:
    with listening() as mirror, closing(mirror.requests()) as requests:
        assert next(requests) is None, "nothing at the moment"
        planted = {"Authorization": "Bearer planted", "Cookie": "planted", "x-session-id": "s-1"}
        assert send(mirror, body(1), body(2), headers=planted) == [204, 204]
        found = nexts(requests, 2)
    assert [request.body["messages"][0]["content"] for request in found] == ["question 1", "question 2"]
    assert {request.session for request in found} == {"s-1"}
    assert "planted" not in repr(found)
    assert mirror.tally.requests == 2


def test_a_body_in_chunks() -> None:
    with listening() as mirror, closing(mirror.requests()) as requests:
        next(requests)
        assert send(mirror, iter([body(1)[:9], body(1)[9:]]), body(2)) == [204, 204]
        assert [request.line for request in nexts(requests, 2)] == [1, 2]


def test_what_no_canary_asks_for_is_answered_and_not_kept() -> None:
    with listening() as mirror:
        assert send(mirror, body(), body()) == [204, 204]
        assert settled(mirror, f"2 {UNASKED}") == f"2 copies\n0 waiting\n2 {UNASKED}\n"
        with closing(mirror.requests()) as requests:
            assert next(requests) is None
            assert send(mirror, body()) == [204]
            assert len(nexts(requests, 1)) == 1
        send(mirror, body())
        assert f"3 {UNASKED}" in settled(mirror, f"3 {UNASKED}")


@pytest.mark.parametrize("bounds", [{"most_copies": 5}, {"most_bytes": 5 * len(body())}])
def test_the_queue_is_bounded_in_copies_and_in_bytes(bounds: dict[str, int]) -> None:
    with listening(**bounds) as mirror, closing(mirror.requests()) as requests:
        next(requests)
        assert send(mirror, *[body()] * 8) == [204] * 8
        assert settled(mirror, f"3 {FULL}") == f"8 copies\n5 waiting\n3 {FULL}\n"
        assert [request.line for request in nexts(requests, 5)] == [1, 2, 3, 4, 5]
        send(mirror, body())
        assert [request.line for request in nexts(requests, 1)] == [9], "there is room again"
    assert mirror.tally.bad == 0, "a copy too many is nobody's mistake"


def test_health_is_for_proxies_and_people() -> None:
    with listening() as mirror, closing(http.client.HTTPConnection("127.0.0.1", mirror.port)) as connection:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"0 copies\n0 waiting\n")
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (204, b"")
        assert mirror.tally.skipped == {"a GET": 1}


@pytest.mark.parametrize(
    ("sent", "status", "reason"),
    [
        (b"Content-Length: 20\r\n\r\n{", b"400", "a body that was cut off"),
        (b"Content-Length: -1\r\n\r\n", b"400", "no length"),
        (b"Content-Length: 99999999999\r\n\r\n", b"400", f"a body of more than {module.BODY_LIMIT} bytes"),
        (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400", "a chunk without its length"),
    ],
)
def test_a_copy_that_cannot_be_read_is_counted_and_its_connection_closed(
    sent: bytes, status: bytes, reason: str
) -> None:
    with listening() as mirror, socket.create_connection(("127.0.0.1", mirror.port), 5) as connection:
        connection.sendall(b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: x\r\n" + sent)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert b"Connection: close" in answer
        assert mirror.tally.skipped == {f"a copy that could not be read: {reason}": 1}
        assert mirror.tally.bad == 1


def test_a_connection_too_many_is_closed_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 1)
    with listening() as mirror, closing(http.client.HTTPConnection("127.0.0.1", mirror.port)) as first:
        first.request("GET", "/health")
        first.getresponse().read()
        with socket.create_connection(("127.0.0.1", mirror.port), 5) as second:
            assert second.recv(1) == b""
        first.request("GET", "/health")
        assert b"1 too many connections at a time" in first.getresponse().read()


def test_a_proxy_that_hangs_up_in_the_middle_is_no_event(capfd: pytest.CaptureFixture[str]) -> None:
    with listening() as mirror:
        for part in (b"POST /v1/chat", b"POST /v1/chat/completions HTTP/1.1\r\nContent-Le"):
            with socket.create_connection(("127.0.0.1", mirror.port), 5) as connection:
                connection.sendall(part)
        assert send(mirror, body()) == [204]
    assert capfd.readouterr() == ("", "")


def test_many_connections_at_a_time_lose_nothing() -> None:
    with listening() as mirror, closing(mirror.requests()) as requests:
        next(requests)
        numbers = [range(first, first + 25) for first in range(0, 500, 25)]
        threads = [threading.Thread(target=send, args=(mirror, *map(body, some))) for some in numbers]
        for thread in threads:
            thread.start()
        found = nexts(requests, 500)
        for thread in threads:
            thread.join()
    asked = sorted(int(request.body["messages"][0]["content"].split()[1]) for request in found)
    assert asked == list(range(500))
    assert [request.line for request in found] == list(range(1, 501))


def test_after_it_is_closed_nothing_listens() -> None:
    with listening() as mirror:
        port = mirror.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)


@pytest.mark.parametrize("listen", ["127.0.0.1:port", "127.0.0.1", "nowhere.invalid:9400", "127.0.0.1:99999", ""])
def test_an_address_that_is_none(listen: str) -> None:
    with pytest.raises(UsageError, match="can't be listened on") as caught:
        MirrorListener(listen)
    assert "HOST:PORT" in str(caught.value.hint)


def test_a_port_that_is_taken() -> None:
    with listening() as mirror, pytest.raises(UsageError, match="Address already in use"):
        MirrorListener(mirror.address)
