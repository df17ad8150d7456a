"""Servers that misbehave, over real sockets: what the transport makes of each, and what it never does."""

from __future__ import annotations

import gzip
import itertools
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.loopback import Answer, Loopback, Request, http, sse

from vllm_gate.core.secret import Secret
from vllm_gate.errors import NoAnswer, UnusableAnswer
from vllm_gate.server.transport import HttpTransport

KEY = "sk-planted-0123456789"


def transport(timeout_s: float = 5.0, **options: Any) -> HttpTransport:
    """As `connect` builds it, with a planted key and no real waiting."""
    options = {"secret": Secret(KEY), "sleep": lambda _: None, **options}
    return HttpTransport(service="s", headers={"Authorization": f"Bearer {KEY}"}, timeout_s=timeout_s, **options)


def in_turn(*answers: Answer) -> Callable[[Request], Answer]:
    """Each answer once; the last one for ever."""
    rest = itertools.chain(answers, itertools.repeat(answers[-1]))
    return lambda _: next(rest)


def endless(piece: bytes, every_s: float, head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Answer:
    return itertools.chain([head], itertools.chain.from_iterable(itertools.repeat((piece, every_s))))


def streamed(asking: HttpTransport, server: Loopback) -> list[tuple[float, bytes]]:
    with asking.stream(server.root, {}) as stream:
        return list(stream.events())


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


# --- what comes back ---------------------------------------------------------------------------------------------


def test_every_status_is_an_answer_and_never_an_exception() -> None:
    for status in (200, 400, 401, 404, 500):
        with Loopback(in_turn(http({"a": 1}, status))) as server:
            answer = transport().get(server.root)
        assert (answer.status, answer.body) == (status, b'{"a": 1}')


def test_a_request_says_who_asks_and_asks_for_an_uncompressed_answer() -> None:
    with Loopback(in_turn(http())) as server:
        transport().post(server.root, {"text": "世"})
    (request,) = server.requests
    assert request.headers["user-agent"].startswith("vllm-gate/")
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["content-type"] == "application/json"
    assert request.json == {"text": "世"}


def test_an_answer_that_is_compressed_all_the_same_is_read() -> None:
    with Loopback(in_turn(http(gzip.compress(b"plain"), Content_Encoding="gzip"))) as server:
        assert transport().get(server.root).body == b"plain"


def test_elapsed_time_is_the_servers() -> None:
    with Loopback(lambda _: [0.3, http(b"{}")]) as server:
        assert 0.3 <= transport().get(server.root).elapsed_s < 1.5


# --- connections -------------------------------------------------------------------------------------------------

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"


@pytest.mark.parametrize("answer", [http(b"abc"), CHUNKED], ids=["content-length", "chunked"])
def test_one_connection_serves_one_request_after_another(answer: bytes) -> None:
    with Loopback(in_turn(answer)) as server:
        asking = transport()
        bodies = [asking.post(server.root, {}).body for _ in range(5)]
    assert bodies == [b"abc"] * 5
    assert {request.connection for request in server.requests} == {1}


def test_sixteen_threads_share_a_pool_of_at_most_sixteen_connections() -> None:
    with Loopback(in_turn(http(b"abc"))) as server:
        asking = transport()
        threads = [threading.Thread(target=lambda: [asking.post(server.root, {}) for _ in range(5)]) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(server.requests) == 80
    assert len({request.connection for request in server.requests}) <= 16


# --- no answer ---------------------------------------------------------------------------------------------------


def test_nothing_listens() -> None:
    with pytest.raises(NoAnswer, match="connection refused") as failure:
        transport().post(f"http://127.0.0.1:{unused_port()}/v1", {})
    assert failure.value.reason == "refused"
    assert "is the server up" in failure.value.hint


def test_a_host_name_that_does_not_resolve() -> None:
    with pytest.raises(NoAnswer) as failure:
        transport().post("http://no-such-host.invalid:8000/v1", {})
    assert failure.value.reason == "dns"


def test_tls_asked_of_a_server_that_has_none() -> None:
    def speak_plainly(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.recv(1 << 16)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=speak_plainly, args=(listener,))
        thread.start()
        with pytest.raises(NoAnswer, match="TLS failed") as failure:
            transport().post(f"https://127.0.0.1:{listener.getsockname()[1]}/", {})
        thread.join()
    assert failure.value.reason == "tls"


def test_a_connection_closed_before_any_answer_is_a_reset() -> None:
    with Loopback(lambda _: []) as server, pytest.raises(NoAnswer) as failure:
        transport().post(server.root, {})
    assert failure.value.reason == "reset"


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno-number\r\n",
    ],
    ids=["content-length", "chunk", "bad chunk size"],
)
def test_an_answer_cut_in_the_middle_is_never_taken_for_whole(start: bytes) -> None:
    with Loopback(lambda _: [start]) as server, pytest.raises(NoAnswer) as failure:
        transport().get(server.root)
    assert failure.value.reason == "closed"
    assert len(server.requests) == 1, "bytes of an answer had come, so asking again could hide the fault"


def test_silence_ends_at_the_timeout_and_names_it() -> None:
    with Loopback(lambda _: [30.0]) as server, pytest.raises(NoAnswer, match=r"no answer within 0\.3 s") as failure:
        transport(timeout_s=60).get(server.root, timeout_s=0.3)
    assert failure.value.reason == "timeout"
    assert len(server.requests) == 1, "a hang is evidence, of a GET too"


@pytest.mark.parametrize("head", [b"", b"Content-Length: 1000\r\n"], ids=["until closed", "content-length"])
def test_a_trickle_ends_at_the_timeout_though_no_silence_is_long(head: bytes) -> None:
    started = time.monotonic()
    trickle = endless(b" ", 0.05, b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
    with Loopback(lambda _: trickle) as server, pytest.raises(NoAnswer, match="no complete answer") as failure:
        transport(timeout_s=0.5).get(server.root)
    assert failure.value.reason == "timeout"
    assert time.monotonic() - started < 1.5


def test_a_stream_of_nothing_but_pings_ends_at_the_timeout() -> None:
    with Loopback(lambda _: endless(b": ping\n\n", 0.05)) as server, pytest.raises(NoAnswer) as failure:
        streamed(transport(timeout_s=0.5), server)
    assert failure.value.reason == "timeout"


@pytest.mark.parametrize("line_end", [b"", b"\n"], ids=["one endless line", "many lines"])
def test_a_body_without_end_is_read_to_the_limit_alone(line_end: bytes) -> None:
    with Loopback(lambda _: endless(b"x" * 4096 + line_end, 0.0)) as server:
        with pytest.raises(UnusableAnswer, match=r"more than 0\.0625 MiB"):
            transport(body_limit=1 << 16).get(server.root)
        with pytest.raises(UnusableAnswer):
            streamed(transport(body_limit=1 << 16), server)


def test_a_body_of_exactly_the_limit_is_taken() -> None:
    with Loopback(in_turn(http(b"x" * 100))) as server:
        assert len(transport(body_limit=100).get(server.root).body) == 100
        with pytest.raises(UnusableAnswer):
            transport(body_limit=99).get(server.root)


def test_headers_without_end_are_no_answer() -> None:
    flood = [b"HTTP/1.1 200 OK\r\n", *(f"h{i}: x\r\n".encode() for i in range(200)), b"\r\n"]
    with Loopback(lambda _: flood) as server, pytest.raises(NoAnswer):
        transport().post(server.root, {})


# --- retries -----------------------------------------------------------------------------------------------------


def test_a_get_is_asked_again_when_the_connection_closed_without_an_answer() -> None:
    with Loopback(in_turn([], [], http(b"there"))) as server:
        asking = transport()
        assert asking.get(server.root).body == b"there"
    assert asking.retries == 2


def test_a_get_is_asked_three_times_and_no_more() -> None:
    with Loopback(lambda _: []) as server, pytest.raises(NoAnswer):
        transport().get(server.root)
    assert len(server.requests) == 3


def test_a_caller_who_polls_gets_one_try() -> None:
    with Loopback(lambda _: []) as server, pytest.raises(NoAnswer):
        transport().get(server.root, once=True)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 429, 500, 502, 503])
def test_a_generation_that_was_refused_is_not_asked_again(status: int) -> None:
    with Loopback(in_turn(http(status=status), http(b"fine"))) as server:
        asking = transport()
        assert asking.post(server.root, {}).status == status
    assert (len(server.requests), asking.retries) == (1, 0)


def test_a_generation_whose_connection_closed_is_not_asked_again() -> None:
    with Loopback(in_turn([], http(b"fine"))) as server, pytest.raises(NoAnswer):
        transport().post(server.root, {})
    assert len(server.requests) == 1


def test_a_generation_that_timed_out_is_not_asked_again() -> None:
    with Loopback(in_turn([30.0], http(b"fine"))) as server, pytest.raises(NoAnswer):
        transport(timeout_s=0.2).post(server.root, {})
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_when_it_says(status: int) -> None:
    waits: list[float] = []
    with Loopback(in_turn(http(status=status, Retry_After="7"), http(b"fine"))) as server:
        asking = transport(sleep=waits.append)
        assert asking.post(server.root, {}).body == b"fine"
    assert (waits, asking.retries) == ([7.0], 1)


def test_a_stream_waits_for_a_busy_server_too() -> None:
    with Loopback(in_turn(http(status=429, Retry_After="1"), sse())) as server:
        asking = transport()
        assert [data for _, data in streamed(asking, server)] == [b"[DONE]"]
    assert asking.retries == 1


def test_a_server_that_stays_busy_is_believed_after_two_waits() -> None:
    with Loopback(in_turn(http(status=429, Retry_After="1"))) as server:
        assert transport().post(server.root, {}).status == 429
    assert len(server.requests) == 3


@pytest.mark.parametrize("wait", ["31", "3600", "-1", "soon", "Fri, 31 Dec 2027 23:59:59 GMT", "²", "1e3"])
def test_a_wait_too_long_or_unreadable_is_not_waited_for(wait: str) -> None:
    with Loopback(in_turn(http(status=429, Retry_After=wait))) as server:
        assert transport().post(server.root, {}).status == 429
    assert len(server.requests) == 1


def test_an_internal_error_with_a_time_to_come_back_is_evidence_all_the_same() -> None:
    with Loopback(in_turn(http(status=500, Retry_After="1"), http(b"fine"))) as server:
        assert transport().post(server.root, {}).status == 500


# --- keys --------------------------------------------------------------------------------------------------------


def test_a_redirect_to_another_host_is_not_followed_and_carries_no_key() -> None:
    with Loopback(in_turn(http(b"elsewhere"))) as elsewhere:
        redirect = http(status=307, Location=f"{elsewhere.root}/v1?token={KEY}")
        with Loopback(in_turn(redirect)) as server, pytest.raises(UnusableAnswer, match="no redirect") as failure:
            transport().post(server.root, {})
    assert elsewhere.requests == []
    assert f"redirects to {elsewhere.root}/v1;" in str(failure.value)
    assert KEY not in str(failure.value)


def test_a_redirect_that_repeats_the_key_in_its_path_is_masked() -> None:
    redirect = http(status=302, Location=f"/login/{KEY}")
    with Loopback(in_turn(redirect)) as server, pytest.raises(UnusableAnswer, match=r"/login/\*\*\*"):
        transport().get(server.root)


def test_a_key_goes_to_allowed_hosts_alone() -> None:
    with Loopback(in_turn(http())) as server:
        with pytest.raises(NoAnswer, match=r"127\.0\.0\.1 is not among the allowed hosts") as failure:
            transport(allowed_hosts=frozenset({"api.example.org"})).get(server.root)
        assert (failure.value.reason, server.requests) == ("forbidden", [])
        assert transport(allowed_hosts=frozenset({"127.0.0.1"})).get(server.root).status == 200


def test_without_a_key_any_host_may_be_asked() -> None:
    with Loopback(in_turn(http())) as server:
        keyless = HttpTransport(service="s", headers={}, secret=None, timeout_s=5, allowed_hosts=frozenset())
        assert keyless.get(server.root).status == 200


def test_a_server_that_repeats_the_key_does_not_get_it_into_an_answer() -> None:
    echo = f"Incorrect API key provided: {KEY}"
    with Loopback(in_turn(http({"error": echo}, 401, X_Echo=KEY), sse({"error": echo}))) as server:
        answer = transport().get(server.root)
        events = streamed(transport(), server)
    assert KEY not in repr(answer)
    assert b"***" in answer.body
    assert KEY not in repr(events)


def test_a_proxy_or_netrc_of_the_machine_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_port()}")
    monkeypatch.setenv("NO_PROXY", "")
    with Loopback(in_turn(http(b"direct"))) as server:
        assert transport().get(server.root).body == b"direct"


# --- streams -----------------------------------------------------------------------------------------------------


def test_events_come_one_by_one_as_the_server_sends_them() -> None:
    head, first, second, done = sse(b"1", b"2")
    with Loopback(lambda _: [head, first, 0.4, second, done]) as server:
        events = streamed(transport(), server)
    assert [data for _, data in events] == [b"1", b"2", b"[DONE]"]
    assert events[0][0] < 0.3 <= events[1][0] - events[0][0], "the first event did not wait for the second"


def test_an_error_status_is_read_whole() -> None:
    with Loopback(in_turn(http({"error": "no"}, 400))) as server, transport().stream(server.root, {}) as stream:
        assert (stream.status, stream.whole().body) == (400, b'{"error": "no"}')


# --- reasons that no loopback server can show --------------------------------------------------------------------


def test_reasons_of_errors_that_are_wrapped() -> None:
    from vllm_gate.server.failures import explain

    def reason(error: BaseException, *, answering: bool = False) -> str:
        wrapped = RuntimeError("Max retries exceeded", RuntimeError(error))
        return explain(wrapped, limit_s=1, answering=answering)[0]

    assert reason(socket.gaierror(-2, "Name or service not known")) == "dns"
    assert reason(OSError(113, "No route to host")) == "refused"
    assert reason(ssl.SSLCertVerificationError(1, "self-signed certificate")) == "tls"
    assert reason(ssl.SSLEOFError(8, "EOF occurred in violation of protocol")) == "reset", "cut, not distrusted"
    assert reason(TimeoutError(), answering=True) == "timeout"
    assert reason(ConnectionResetError(104, "reset by peer"), answering=True) == "closed"


def test_requests_is_not_imported_until_something_is_asked() -> None:
    """It takes a quarter of a second, which `vllm-gate --version` must not wait for."""
    code = "import sys, vllm_gate.server.connect; sys.exit('requests' in sys.modules or 'urllib3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
