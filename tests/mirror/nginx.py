"""A real nginx that runs the example configuration on free ports, and what it logged."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/mirror/nginx.conf"
MIRROR = "        mirror /_vllm_gate;\n"
_MAIN = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
events {{ worker_connections 1024; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/example.conf;
}}
"""


@dataclass(frozen=True, slots=True)
class Nginx:
    """A proxy that listens on `port` of loopback. `sink` is the port of those copies that the listener does not get."""

    port: int
    sink: int
    folder: Path

    def requests(self) -> int:
        """Of users, by the access log, in which every request of theirs has a line."""
        return len(self._lines("access.log"))

    def copies(self) -> list[int]:
        """The port where each copy ended, by nginx's log."""
        return [int(line.split()[-1].rpartition(":")[2]) for line in self._lines("vllm-gate.log")]

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


@contextmanager
def nginx(folder: Path, *, production: int, listener: int, mirror: bool = True) -> Iterator[Nginx]:
    """The example between a port of production and a port of the listener, with or without its `mirror`."""
    folder.mkdir(parents=True, exist_ok=True)
    port, sink = free_port(), free_port()
    example = EXAMPLE.read_text()
    ports = {"8000": production, "9400": listener, "9401": sink, "8080": port}
    changes = {f"127.0.0.1:{shown}": f"127.0.0.1:{used}" for shown, used in ports.items()}
    changes["/var/log/nginx/"] = f"{folder}/"
    assert all(shown in example for shown in (*changes, MIRROR))
    for shown, used in changes.items():
        example = example.replace(shown, used)
    (folder / "example.conf").write_text(example if mirror else example.replace(MIRROR, ""))
    (folder / "nginx.conf").write_text(_MAIN.format(folder=folder))
    process = subprocess.Popen(["nginx", "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "error.log"])
    try:
        _wait_for(port, process)
        yield Nginx(port, sink, folder)
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.02)
    raise RuntimeError(f"nginx does not listen; code {process.poll()}")
