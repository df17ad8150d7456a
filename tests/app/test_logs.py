"""Logs are read from a growing file, a Docker socket, or standard input."""

import io
import json
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vllm_gate.app.logs import DockerLog, FileLog, StandardInput, open_log
from vllm_gate.errors import CouldNotJudge, FileProblem


def test_the_key_chooses_the_source() -> None:
    assert isinstance(open_log("-"), StandardInput)
    assert isinstance(open_log("vllm.log"), FileLog)
    docker = open_log("docker:vllm")
    assert isinstance(docker, DockerLog)
    assert docker.container == "vllm"


def test_a_log_that_is_not_there_yet_has_no_lines_and_one_that_grows_has_more(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "vllm.log")
    assert list(log.lines()) == []
    (tmp_path / "vllm.log").write_bytes(b"one\r\ntwo \xff\nthr")
    assert list(log.lines()) == ["one", "two \ufffd", "thr"]
    (tmp_path / "vllm.log").write_bytes(b"one\r\ntwo \xff\nthree\n")
    assert list(log.lines())[-1] == "three"
    assert b"".join(log.chunks()) == b"one\r\ntwo \xff\nthree\n"
    assert list(FileLog(tmp_path / "other.log").chunks()) == []


def test_a_folder_in_place_of_a_log_is_told_with_the_key_to_change(tmp_path: Path) -> None:
    with pytest.raises(FileProblem) as wrong:
        list(FileLog(tmp_path).lines())
    assert "service.under_test" in wrong.value.hint


def test_standard_input_is_read_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\nb\n"))
    source = StandardInput()
    assert source.lines() == ["a", "b"]
    assert source.lines() == ["a", "b"]
    assert b"".join(source.chunks()) == b"a\nb\n"


def frame(stream: int, payload: bytes) -> bytes:
    """Docker's attach format, as the Engine API's reference gives it."""
    return struct.pack(">BxxxI", stream, len(payload)) + payload


@contextmanager
def docker(path: Path, *, tty: bool, log: bytes, status: str = "200 OK") -> Iterator[list[str]]:
    """A daemon that answers the two read-only calls and keeps their request lines."""
    asked: list[str] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                line = connection.recv(65536).decode().splitlines()[0]
                asked.append(line)
                body = json.dumps({"Config": {"Tty": tty}}).encode() if "/json" in line else log
                head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_a_containers_two_streams_are_read_in_docker_order(tmp_path: Path) -> None:
    log = frame(1, b"INFO first\nINFO sec") + frame(1, b"ond\n") + frame(2, b"WARNING third\n")
    with docker(tmp_path / "docker.sock", tty=False, log=log) as asked:
        lines = list(DockerLog("vllm", str(tmp_path / "docker.sock")).lines())
    assert lines == ["INFO first", "INFO second", "WARNING third"]
    assert asked == [
        "GET /containers/vllm/json HTTP/1.1",
        "GET /containers/vllm/logs?stdout=1&stderr=1&timestamps=0 HTTP/1.1",
    ]


def test_a_container_with_a_terminal_is_not_framed(tmp_path: Path) -> None:
    with docker(tmp_path / "docker.sock", tty=True, log=b"plain\r\nlines\r\n"):
        assert list(DockerLog("vllm", str(tmp_path / "docker.sock")).lines()) == ["plain", "lines"]


def test_an_unknown_container_and_a_missing_socket_are_told(tmp_path: Path) -> None:
    with (
        docker(tmp_path / "docker.sock", tty=False, log=b"", status="404 Not Found"),
        pytest.raises(CouldNotJudge, match="HTTP 404 for container 'vlm'"),
    ):
        list(DockerLog("vlm", str(tmp_path / "docker.sock")).lines())
    with pytest.raises(CouldNotJudge) as missing:
        list(DockerLog("vllm", str(tmp_path / "nothing.sock")).lines())
    assert "mount the Docker socket" in missing.value.hint
