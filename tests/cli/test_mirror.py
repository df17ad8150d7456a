"""`vllm-gate mirror` from the outside: its own process, with copies sent to it."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.cli.canary import always, canary, facts, never
from tests.cli.console import vllm_gate

REPORT = Path("vllm-gate-report")


class Mirror:
    """A process that listens, and copies that are sent to it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "vllm_gate", "mirror", "--listen", "127.0.0.1:0", *arguments]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stderr
        told = self.process.stderr.readline()
        assert told.startswith("listening on 127.0.0.1:"), told + self.process.stderr.read()
        self.port = int(told.split()[2].rpartition(":")[2])

    def send(self, count: int, *, until: Callable[[], bool] = lambda: False) -> int:
        """How many of `count` copies were answered 204 before it stopped listening."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            for number in range(count):
                messages = [{"role": "user", "content": f"private question {number}"}]
                headers = {"Authorization": "Bearer sk-planted"}
                try:
                    body = json.dumps({"messages": messages})
                    connection.request("POST", "/v1/chat/completions", body, headers)
                    answer = connection.getresponse()
                    answer.read()
                    assert answer.status == 204
                except (OSError, http.client.HTTPException):
                    return number
                if until():
                    return number + 1
        return count

    def ended(self) -> tuple[int, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out + err


@contextmanager
def mirror(folder: Path, *arguments: str) -> Iterator[Mirror]:
    running = Mirror(folder, *arguments)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


def test_a_broken_release_is_blocked_by_the_copies(tmp_path: Path) -> None:
    with canary(tmp_path, always), mirror(tmp_path) as running:
        threading.Thread(target=running.send, args=(400,), daemon=True).start()
        code, told = running.ended()
    assert code == 1, told
    found = facts(tmp_path / REPORT)
    assert found["counts"]["worse"] <= 15
    decision = json.loads((tmp_path / REPORT / "report.json").read_text())["decision"]
    assert decision["matched"] == ["gate_5_task_success_dropped"]
    everything = told + "".join(path.read_text() for path in (tmp_path / REPORT).iterdir() if path.is_file())
    assert "private" not in everything
    assert "planted" not in everything


def test_a_healthy_release_passes_and_every_copy_is_accounted_for(tmp_path: Path) -> None:
    with canary(tmp_path, never), mirror(tmp_path) as running:
        threading.Thread(target=running.send, args=(400,), daemon=True).start()
        code, told = running.ended()
    assert code == 0, told
    found = facts(tmp_path / REPORT)
    traffic, counts = found["traffic"], found["counts"]
    assert traffic["requests"] >= found["sample"]["read"] >= counts["same"] > 50
    assert (counts["worse"], counts["better"], counts["excluded"]) == (0, 0, 0)
    assert set(traffic["skipped"]) <= {"it came while no canary was asking"}


def test_a_mirror_without_copies_ends_with_its_time(tmp_path: Path) -> None:
    with canary(tmp_path, never, max_duration_sec=1), mirror(tmp_path) as running:
        code, told = running.ended()
    assert code == 3
    assert "max_duration_sec (1 s) is over" in " ".join(told.split())


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_mirror_that_is_stopped_keeps_its_journal_and_goes_on(tmp_path: Path, sent: signal.Signals) -> None:
    journal = tmp_path / REPORT / "canary.jsonl"
    with canary(tmp_path, never):
        with mirror(tmp_path) as running:
            running.send(400, until=lambda: journal.exists() and journal.read_text().count("\n") > 5)
            running.process.send_signal(sent)
            code, told = running.ended()
        assert code == 130, told
        assert "Traceback" not in told
        kept = journal.read_text().count("\n") - 1
        with mirror(tmp_path, "--resume") as running:
            threading.Thread(target=running.send, args=(400,), daemon=True).start()
            code, told = running.ended()
    assert code == 0, told
    assert facts(tmp_path / REPORT)["resumed"] == kept > 4


def test_an_address_is_needed_and_must_be_free(tmp_path: Path) -> None:
    with canary(tmp_path, never):
        ran = vllm_gate("mirror", cwd=tmp_path)
        assert (ran.code, "--listen 127.0.0.1:9400" in ran.err) == (2, True)
        with mirror(tmp_path) as running:
            taken = vllm_gate("mirror", "--listen", f"127.0.0.1:{running.port}", "--journal", "j", cwd=tmp_path)
    assert taken.code == 2
    assert "Address already in use" in taken.err
    assert not (tmp_path / "j").exists()


def test_the_address_may_stand_in_the_config(tmp_path: Path) -> None:
    with canary(tmp_path, never, max_duration_sec=1):
        config = (tmp_path / "config.toml").read_text().replace('log = "traffic.jsonl"', 'listen = "127.0.0.1:0"')
        (tmp_path / "config.toml").write_text(config)
        ran = vllm_gate("mirror", cwd=tmp_path)
    assert ran.code == 3
    assert "listening on 127.0.0.1:" in ran.err
