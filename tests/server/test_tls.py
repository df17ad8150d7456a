"""Whom the transport trusts: the usual authorities, or the one that REQUESTS_CA_BUNDLE names."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import trustme

from vllm_gate.errors import NoAnswer
from vllm_gate.server.transport import HttpTransport


class Greeting(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"OK")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def no_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def address(authority: trustme.CA) -> Iterator[str]:
    """A server whose certificate is the authority's, for the name localhost alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with HTTPServer(("127.0.0.1", 0), Greeting) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"https://localhost:{server.server_port}/"
        server.shutdown()
        thread.join()


def transport() -> HttpTransport:
    return HttpTransport(service="s", headers={}, secret=None, timeout_s=5.0)


def test_an_unknown_authority_is_not_trusted(address: str) -> None:
    with pytest.raises(NoAnswer, match="TLS failed: unable to get local issuer") as failure:
        transport().get(address, once=True)
    assert failure.value.reason == "tls"
    assert "REQUESTS_CA_BUNDLE" in failure.value.hint


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_private_authority_is_named_by_a_variable(
    address: str, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv(variable, str(tmp_path / "ca.pem"))
    asking = transport()
    assert [asking.get(address).body for _ in range(2)] == [b"OK"] * 2
    with pytest.raises(NoAnswer, match="IP address mismatch"):
        asking.get(address.replace("localhost", "127.0.0.1"), once=True)


def test_a_bundle_that_is_not_there_is_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/ca.pem")
    with pytest.raises(NoAnswer, match="REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE names is not there") as failure:
        transport().get(address, once=True)
    assert failure.value.reason == "tls"
