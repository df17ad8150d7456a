"""A loopback address that refuses inside a container: where the server may be, and what the user is told."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from vllm_gate.server.reach import accepts, default_gateway, inside_container, look_elsewhere, with_host

BASE_URL = "http://127.0.0.1:8000/v1"
ROUTES = (
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask",
    "eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF",
    "eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000",
)
"""172.17.0.0/16 on eth0, and the default route by 172.17.0.1, as Docker's bridge writes them."""


def only(host: str, asked: list[tuple[str, int]] | None = None) -> Callable[[str, int], bool]:
    def answers(candidate: str, port: int) -> bool:
        if asked is not None:
            asked.append((candidate, port))
        return candidate == host

    return answers


def test_a_server_on_the_host_is_found_by_the_gateway() -> None:
    asked: list[tuple[str, int]] = []
    found = look_elsewhere(BASE_URL, in_container=True, gateway="172.17.0.1", answers=only("172.17.0.1", asked))
    assert found is not None
    assert asked == [("vllm", 8000), ("host.docker.internal", 8000), ("172.17.0.1", 8000)]
    message = found.explain()
    assert message.startswith("http://127.0.0.1:8000/v1 refuses")
    assert "tried port 8000 on vllm, host.docker.internal, 172.17.0.1" in message
    assert message.endswith("172.17.0.1 answers: set base_url to http://172.17.0.1:8000/v1")


def test_a_job_service_is_found_first_and_nothing_else_is_tried() -> None:
    asked: list[tuple[str, int]] = []
    found = look_elsewhere(BASE_URL, in_container=True, gateway="172.17.0.1", answers=only("vllm", asked))
    assert found is not None
    assert (found.answered, asked) == ("vllm", [("vllm", 8000)])


def test_when_nothing_answers_the_user_is_told_to_bind_every_interface() -> None:
    found = look_elsewhere(BASE_URL, in_container=True, gateway="", answers=only("nobody"))
    assert found is not None
    assert found.tried == ("vllm", "host.docker.internal"), "no gateway, none tried"
    assert "none answers: start vLLM with --host 0.0.0.0" in found.explain()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.0.1", "0.0.0.0", "[::1]"])
def test_every_name_of_loopback_raises_the_question(host: str) -> None:
    url = f"http://{host}:8000/v1"
    assert look_elsewhere(url, in_container=True, gateway="", answers=only("nobody")) is not None
    assert look_elsewhere(url, in_container=False, gateway="", answers=only("nobody")) is None


@pytest.mark.parametrize("host", ["vllm", "10.0.0.7", "localhost.example.org", "1270.example.org"])
def test_no_other_host_raises_it(host: str) -> None:
    assert look_elsewhere(f"http://{host}:8000", in_container=True, gateway="", answers=only("nobody")) is None


@pytest.mark.parametrize(("url", "port"), [("http://localhost", 80), ("https://localhost", 443)])
def test_the_schemes_own_port_is_tried_and_told(url: str, port: int) -> None:
    found = look_elsewhere(url, in_container=True, gateway="", answers=only("nobody"))
    assert found is not None
    assert f"tried port {port} on" in found.explain()


@pytest.mark.parametrize(
    ("url", "moved"),
    [
        ("http://127.0.0.1:8000/v1", "http://h:8000/v1"),
        ("https://localhost/api/v1", "https://h/api/v1"),
        ("http://[::1]:8000/v1", "http://h:8000/v1"),
    ],
)
def test_an_address_is_moved_to_another_host(url: str, moved: str) -> None:
    assert with_host(url, "h") == moved


@pytest.mark.parametrize(
    ("routes", "gateway"),
    [(ROUTES, "172.17.0.1"), (ROUTES[:2], ""), (ROUTES[:1], ""), ((), ""), (("header", "short line", ""), "")],
)
def test_the_default_gateway_is_read_from_the_routing_table(routes: tuple[str, ...], gateway: str) -> None:
    assert default_gateway(routes) == gateway


MOUNTS = "22 28 0:20 / /proc rw shared:5 - proc proc rw\n661 649 8:1 /var/lib/x/hosts /etc/hosts rw - ext4 /dev/sda rw"


@pytest.mark.parametrize(
    ("files", "inside"),
    [
        ({}, False),
        ({"/.dockerenv": ""}, True),
        ({"/run/.containerenv": ""}, True),
        ({"/proc/1/cgroup": "0::/"}, False),
        ({"/proc/1/cgroup": "12:pids:/docker/8a2f"}, True),
        ({"/proc/1/cgroup": "1:name=systemd:/kubepods/besteffort/pod1"}, True),
        ({"/proc/1/cgroup": "0::/", "/proc/self/mountinfo": MOUNTS}, True),
        ({"/proc/self/mountinfo": MOUNTS.replace(" /etc/hosts ", " /srv/etc/hosts ")}, False),
        ({"/proc/self/mountinfo": "short line\n\n"}, False),
    ],
)
def test_a_container_is_known_by_what_its_runtime_leaves_behind(files: dict[str, str], inside: bool) -> None:
    assert inside_container(files.__contains__, lambda path: files.get(path, "")) is inside


def test_this_machine_can_be_asked_too() -> None:
    assert isinstance(inside_container(), bool)
    assert isinstance(default_gateway(), str)


def test_accepts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert accepts("127.0.0.1", port)
    assert not accepts("127.0.0.1", port)
    assert not accepts("no-such-host.invalid", 80)
