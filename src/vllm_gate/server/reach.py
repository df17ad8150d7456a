"""Why a loopback address refuses inside a container, and where the server may be instead.

Inside a container 127.0.0.1 is the container itself. A server on the host is behind the container's default gateway,
and one in a job service is at the service's name; either must listen on 0.0.0.0, not on the host's loopback.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

_LOOPBACK = ("localhost", "::1", "0.0.0.0")
_SERVICE_NAMES = ("vllm", "host.docker.internal")


@dataclass(frozen=True, slots=True)
class Reachable:
    """Where else the port was looked for: hosts in order, and the one that answered ("" for none)."""

    base_url: str
    tried: tuple[str, ...]
    answered: str

    def explain(self) -> str:
        """One message: what was tried, what answered, what to change."""
        port = _port(self.base_url)
        where = f"{self.base_url} refuses: inside a container that address is the container itself, not the host"
        tried = f"tried port {port} on {', '.join(self.tried)}"
        if self.answered:
            return (
                f"{where}; {tried}; {self.answered} answers: set base_url to {with_host(self.base_url, self.answered)}"
            )
        return (
            f"{where}; {tried}; none answers: start vLLM with --host 0.0.0.0 (a server bound to the host's 127.0.0.1 "
            "can't be reached from a container), or name it as a job service and use that name in base_url"
        )


def look_elsewhere(
    base_url: str, *, in_container: bool, gateway: str, answers: Callable[[str, int], bool]
) -> Reachable | None:
    """Where a server that refuses on loopback answers; None when the question does not arise.

    `answers(host, port)` says whether something accepts a connection there.
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if not (host in _LOOPBACK or host.startswith("127.")) or not in_container:
        return None
    port = _port(base_url)
    candidates = tuple(host for host in (*_SERVICE_NAMES, gateway) if host)
    return Reachable(base_url, candidates, next((host for host in candidates if answers(host, port)), ""))


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def with_host(url: str, host: str) -> str:
    """`url` with another host, its port kept."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{host}:{parts.port}" if parts.port else host))


def inside_container(exists: Callable[[str], bool] | None = None, read: Callable[[str], str] | None = None) -> bool:
    """Whether this process runs in a container (Docker, Podman, containerd or Kubernetes).

    Besides the marker files and cgroup v1 names: every container runtime mounts its own `/etc/hosts`.
    """
    exists, read = exists or _exists, read or _read
    if exists("/.dockerenv") or exists("/run/.containerenv"):
        return True
    if any(mark in read("/proc/1/cgroup") for mark in ("docker", "containerd", "kubepods", "libpod")):
        return True
    mounts = (line.split() for line in read("/proc/self/mountinfo").splitlines())
    return any(len(fields) > 4 and fields[4] == "/etc/hosts" for fields in mounts)


def _exists(path: str) -> bool:
    return Path(path).exists()


def _read(path: str) -> str:
    """The text of a file; "" when it can't be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def default_gateway(routes: Sequence[str] | None = None) -> str:
    """The IPv4 default gateway from the kernel's routing table (`/proc/net/route`); "" when there is none.

    Addresses stand there as hexadecimal in host byte order, which is little-endian on every machine vLLM runs on.
    """
    lines = _read("/proc/net/route").splitlines() if routes is None else routes
    for line in lines[1:]:
        fields = line.split()
        if len(fields) > 2 and fields[1] == "00000000":
            return socket.inet_ntoa(bytes.fromhex(fields[2])[::-1])
    return ""


def accepts(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Whether something accepts a TCP connection at host and port."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False
