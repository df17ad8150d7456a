"""Copies from a real nginx: users notice nothing, whatever state the listener is in; every copy is accounted for."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from tests.cli.canary import always, canary, facts
from tests.mirror.nginx import Nginx, free_port, nginx
from tests.mirror.users import ask, expected, production
from tests.server.loopback import Loopback

from vllm_gate.traffic.mirror import MirrorListener
from vllm_gate.traffic.request import TrafficRequest

REQUESTS = 2_000
FULL = "it came faster than the canary asks, and the queue was full"


@contextmanager
def proxied(folder: Path, listener: int) -> Iterator[Nginx]:
    with Loopback(production) as behind, nginx(folder, production=behind.port, listener=listener) as proxy:
        yield proxy


def all_are_served(proxy: Nginx, count: int = REQUESTS) -> None:
    """And none waits for a listener that never answers. How little they wait: `bench/run mirror_latency`."""
    seen = ask(proxy.port, count)
    assert [(one.number, one.status, one.text) for one in seen] == [expected(number) for number in range(count)]
    assert max(one.seconds for one in seen) < 5


@contextmanager
def taking(mirror: MirrorListener) -> Iterator[list[TrafficRequest]]:
    """A canary that takes every copy at once."""
    found: list[TrafficRequest] = []
    stop = threading.Event()

    def take() -> None:
        with closing(mirror.requests()) as requests:
            for request in requests:
                found.extend([request] if request else [])
                if stop.is_set() and request is None:
                    return

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def test_a_twentieth_is_copied_and_the_counts_agree_with_nginxs_log(tmp_path: Path) -> None:
    with closing(MirrorListener("127.0.0.1:0")) as mirror:
        with proxied(tmp_path, mirror.port) as proxy, taking(mirror) as found:
            all_are_served(proxy)
        copies = proxy.copies()
        assert proxy.requests() == REQUESTS
    assert set(copies) == {mirror.port}
    assert len(found) == mirror.tally.requests == len(copies)
    assert mirror.tally.skipped == {}
    assert 60 <= len(copies) <= 142, "five standard deviations around a twentieth of 2,000"
    asked = [request.body["messages"][0]["content"] for request in found]
    assert len(set(asked)) == len(asked)
    assert {text.split()[0] for text in asked} == {"question"}
    assert "planted" not in repr(found)


def test_copies_that_a_full_queue_drops_are_counted(tmp_path: Path) -> None:
    with closing(MirrorListener("127.0.0.1:0", most_copies=5)) as mirror, closing(mirror.requests()) as requests:
        next(requests)
        with proxied(tmp_path, mirror.port) as proxy:
            all_are_served(proxy)
        copies = proxy.copies()
        told = mirror.health().decode().splitlines()
    assert set(copies) == {mirror.port}
    assert told == [f"{len(copies)} copies", "5 waiting", f"{len(copies) - 5} {FULL}"]


def test_a_dead_listener(tmp_path: Path) -> None:
    with proxied(tmp_path, free_port()) as proxy:
        all_are_served(proxy)
    assert set(proxy.copies()) == {proxy.sink}


@contextmanager
def process(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command itself, and its port."""
    command = [sys.executable, "-m", "vllm_gate", "mirror", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr
            told = running.stderr.readline()
            yield running, int(told.rpartition(":")[2].split()[0])
        finally:
            with suppress(ProcessLookupError):
                os.kill(running.pid, signal.SIGCONT)
            running.kill()


@pytest.mark.parametrize("sent", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "killed"])
def test_a_listener_that_is_frozen_or_killed_under_load(tmp_path: Path, sent: signal.Signals) -> None:
    with canary(tmp_path, always, delay_s=0.2), process(tmp_path) as (running, port):
        with proxied(tmp_path / "nginx", port) as proxy:
            all_are_served(proxy, 400)
            assert port in proxy.copies()
            os.kill(running.pid, sent)
            all_are_served(proxy)
        assert proxy.sink in proxy.copies(), "the circuit breaker opened"


def test_a_listener_that_answers_after_the_time_it_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        with proxied(tmp_path, silent.getsockname()[1]) as proxy:
            all_are_served(proxy)
        assert proxy.sink in proxy.copies()


def test_a_broken_release_is_found_by_the_copies_of_users_requests(tmp_path: Path) -> None:
    with canary(tmp_path, always), process(tmp_path) as (running, port), proxied(tmp_path / "nginx", port) as proxy:
        all_are_served(proxy, 1_000)
        out, err = running.communicate(timeout=30)
    assert running.returncode == 1, out + err
    assert facts(tmp_path / "vllm-gate-report")["counts"]["worse"] <= 15
    decision = json.loads((tmp_path / "vllm-gate-report/report.json").read_text())["decision"]
    assert decision["matched"] == ["gate_5_task_success_dropped"]
