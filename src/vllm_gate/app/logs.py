"""Where a server's start-up log is read from: a file that may still grow, a container's log, or standard input."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from vllm_gate.errors import CouldNotJudge, FileProblem

DOCKER_SOCKET = "/var/run/docker.sock"
_MOST_BYTES = 2**30
_LONGEST_LINE = 1 << 20
_CHUNK = 1 << 20


def open_log(spec: str) -> FileLog | DockerLog | StandardInput:
    """The source a `log = …` key names: `docker:NAME`, `-` for standard input, else a path."""
    if spec == "-":
        return StandardInput()
    kind, separator, name = spec.partition(":")
    if kind == "docker" and separator:
        return DockerLog(name)
    return FileLog(Path(spec))


class FileLog:
    """A log file. Not there yet means no lines yet: a server that is starting has not written any."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def lines(self) -> Iterator[str]:
        """Every line so far. Raises FileProblem when the path can't be read at all."""
        for raw in self._read(lambda log: log.readline(_LONGEST_LINE)):
            yield raw.decode("utf-8", errors="replace").rstrip("\r\n")

    def chunks(self) -> Iterator[bytes]:
        """The same as bytes, cut anywhere: what is large is read faster so."""
        return self._read(lambda log: log.read(_CHUNK))

    def _read(self, some: Callable[[BinaryIO], bytes]) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as log:
                while raw := some(log):
                    yield raw
        except FileNotFoundError:
            return
        except OSError as problem:
            raise FileProblem(
                f"{self.path}: the server's log can't be read: {problem.strerror}",
                hint="set `log` of [service.under_test] to the file vLLM writes, or to docker:NAME",
            ) from problem


class StandardInput:
    """Lines piped in; read once and kept."""

    name = "standard input"

    def __init__(self) -> None:
        self._lines: list[str] | None = None

    def lines(self) -> list[str]:
        """Every line up to the end of the input."""
        if self._lines is None:
            self._lines = [line.rstrip("\r\n") for line in sys.stdin]
        return self._lines

    def chunks(self) -> Iterator[bytes]:
        """The same as bytes."""
        return (f"{line}\n".encode(errors="replace") for line in self.lines())


class DockerLog:
    """A container's log through the Docker socket: one read-only call of the Engine API for each reading."""

    def __init__(self, container: str, socket_path: str = DOCKER_SOCKET) -> None:
        self.container = container
        self.name = f"docker:{container}"
        self._socket_path = socket_path

    def lines(self) -> Iterator[str]:
        """Every line so far, both streams in the order Docker kept. Raises CouldNotJudge without the socket."""
        return _split(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """The same as bytes, cut anywhere."""
        tty = bool(self._inspect().get("Tty"))
        with _UnixConnection(self._socket_path) as connection:
            answer = self._get(connection, "logs?stdout=1&stderr=1&timestamps=0")
            yield from (answer if tty else _demultiplex(answer))

    def _inspect(self) -> dict[str, object]:
        with _UnixConnection(self._socket_path) as connection:
            body = json.loads(self._get(connection, "json").read(_LONGEST_LINE))
        config = body.get("Config")
        return config if isinstance(config, dict) else {}

    def _get(self, connection: http.client.HTTPConnection, what: str) -> http.client.HTTPResponse:
        try:
            connection.request("GET", f"/containers/{quote(self.container, safe='')}/{what}")
            answer = connection.getresponse()
        except OSError as problem:
            raise CouldNotJudge(
                f"the Docker socket {self._socket_path} can't be asked for the log of {self.container!r}: {problem}",
                hint="mount the Docker socket into the container, or set `log` to a file",
            ) from problem
        if answer.status != 200:
            raise CouldNotJudge(
                f"Docker answered HTTP {answer.status} for container {self.container!r}",
                hint="`docker ps --all` lists the names that exist",
            )
        return answer


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def __enter__(self) -> _UnixConnection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _demultiplex(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The payloads of Docker's attach format: 1 byte stream, 3 bytes zero, 4 bytes big-endian size, payload."""
    seen = 0
    while len(header := answer.read(8)) == 8 and seen < _MOST_BYTES:
        (size,) = struct.unpack(">4xI", header)
        seen += size
        yield answer.read(size)


def _split(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode("utf-8", errors="replace").rstrip("\r") for line in whole)
        if len(rest) > _LONGEST_LINE:
            yield rest.decode("utf-8", errors="replace")
            rest = b""
    if rest:
        yield rest.decode("utf-8", errors="replace").rstrip("\r")
