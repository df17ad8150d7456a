"""`vllm-gate shadow` and `merge` from the outside: exit codes, journals, shards, and a canary that is killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.canary import always, canary, facts, never, share
from tests.cli.console import vllm_gate

JOURNAL = Path("vllm-gate-report/canary.jsonl")
REPORT = Path("vllm-gate-report")


def test_a_healthy_candidate_passes(tmp_path: Path) -> None:
    with canary(tmp_path, never):
        ran = vllm_gate("shadow", cwd=tmp_path)
    assert ran.code == 0, ran.all
    assert "the candidate fails 0 that the baseline serves" in " ".join(ran.out.split())


def test_a_broken_candidate_is_blocked_and_the_condition_matches(tmp_path: Path) -> None:
    with canary(tmp_path, always):
        ran = vllm_gate("shadow", cwd=tmp_path)
    assert ran.code == 1, ran.all
    assert facts(tmp_path / REPORT)["counts"]["worse"] <= 15
    decision = json.loads((tmp_path / REPORT / "report.json").read_text())["decision"]
    assert decision["matched"] == ["gate_5_task_success_dropped"]
    assert "private" not in ran.all + (tmp_path / JOURNAL).read_text()


def test_too_little_traffic_is_exit_3_and_says_how_much_is_missing(tmp_path: Path) -> None:
    with canary(tmp_path, never, count=20):
        ran = vllm_gate("shadow", cwd=tmp_path)
    assert ran.code == 3
    assert "more requests are needed to know" in " ".join(ran.out.split())


def test_gate_5_in_a_run(tmp_path: Path) -> None:
    with canary(tmp_path, always):
        ran = vllm_gate("run", "--gates", "5", cwd=tmp_path)
        again = vllm_gate("run", "--gates", "5", cwd=tmp_path)
    assert ran.code == again.code == 1
    assert facts(tmp_path / REPORT)["resumed"] == 0, "a run begins anew: the release may be another one"


def test_traffic_from_the_command_line(tmp_path: Path) -> None:
    with canary(tmp_path, never):
        (tmp_path / "traffic.jsonl").rename(tmp_path / "other.jsonl")
        missing = vllm_gate("shadow", cwd=tmp_path)
        ran = vllm_gate("shadow", "--traffic", "other.jsonl", cwd=tmp_path)
    assert missing.code == 2
    assert "traffic.jsonl: there is no such traffic log" in missing.err
    assert not JOURNAL.exists()
    assert ran.code == 0


def test_without_traffic_it_is_inconclusive(tmp_path: Path) -> None:
    with canary(tmp_path, never):
        config = (tmp_path / "config.toml").read_text().partition("[traffic]")[0]
        (tmp_path / "config.toml").write_text(config)
        ran = vllm_gate("run", cwd=tmp_path)
    assert ran.code == 3
    assert 'log = "traffic.jsonl" under [traffic]' in " ".join(ran.out.split())


def test_a_file_that_is_no_traffic_is_an_error_and_not_a_verdict(tmp_path: Path) -> None:
    with canary(tmp_path, never):
        (tmp_path / "traffic.jsonl").write_text("what is this\n" * 300)
        ran = vllm_gate("shadow", cwd=tmp_path)
    assert ran.code == 3
    assert "line 1: not JSON" in " ".join(ran.out.split())


# --- the journal -------------------------------------------------------------------------------------------------


def test_a_journal_is_not_overwritten(tmp_path: Path) -> None:
    with canary(tmp_path, never, count=20):
        vllm_gate("shadow", cwd=tmp_path)
        before = (tmp_path / JOURNAL).read_text()
        ran = vllm_gate("shadow", cwd=tmp_path)
        assert (ran.code, (tmp_path / JOURNAL).read_text()) == (2, before)
        assert "--resume" in ran.err
        assert vllm_gate("shadow", "--resume", cwd=tmp_path).code == 3
    assert facts(tmp_path / REPORT)["resumed"] == 20


def test_a_finished_journal_gives_its_verdict_again_without_a_request(tmp_path: Path) -> None:
    with canary(tmp_path, always):
        vllm_gate("shadow", cwd=tmp_path)
        first = facts(tmp_path / REPORT)
        assert vllm_gate("shadow", "--resume", cwd=tmp_path).code == 1
    again = facts(tmp_path / REPORT)
    assert (again["counts"], again["curve"]) == (first["counts"], first["curve"])


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: text.replace('"traffic_ratio":1.0', '"traffic_ratio":0.5'), "begun with another sample"),
        (lambda text: text.replace('"under_test":"m"', '"under_test":"n"'), "begun with another services"),
        (lambda text: text.replace("vllm-gate canary journal", "x"), "canary.jsonl:1: this is no journal"),
        (lambda text: text.replace('"number":3', '"number":"x"'), "canary.jsonl:5:"),
        (lambda text: text.replace('"number":3', '"number":1'), "request 1 stands behind request 2"),
    ],
)
def test_a_journal_that_is_not_this_canarys_is_refused(tmp_path: Path, damage: object, told: str) -> None:
    assert callable(damage)
    with canary(tmp_path, never, count=20):
        vllm_gate("shadow", cwd=tmp_path)
        text = (tmp_path / JOURNAL).read_text()
        (tmp_path / JOURNAL).write_text(damage(text))
        ran = vllm_gate("shadow", "--resume", cwd=tmp_path)
    assert ran.code in (2, 3)
    assert told in " ".join(ran.all.split())


def test_a_journal_that_another_run_writes_is_left_alone(tmp_path: Path) -> None:
    with canary(tmp_path, never, count=20):
        vllm_gate("shadow", cwd=tmp_path)
        lock = "import fcntl, sys, time; f = open(sys.argv[1], 'r+b'); fcntl.flock(f, fcntl.LOCK_EX); "
        wait = "print('held', flush=True); time.sleep(60)"
        holder = subprocess.Popen([sys.executable, "-c", lock + wait, tmp_path / JOURNAL], stdout=subprocess.PIPE)
        try:
            assert holder.stdout
            holder.stdout.readline()
            ran = vllm_gate("shadow", "--resume", cwd=tmp_path)
        finally:
            holder.kill()
            holder.communicate()
    assert ran.code == 2
    assert "another run is writing this journal" in ran.err


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_killed_50_times_at_random_moments_it_ends_as_if_it_never_had_been(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    rng = random.Random(7)
    for folder in (whole, killed):
        folder.mkdir()
    with canary(whole, share(0.02), count=2_000, delay_s=0.01, concurrency=4):
        expected = vllm_gate("shadow", cwd=whole)
    with canary(killed, share(0.02), count=2_000, delay_s=0.01, concurrency=4):
        sizes = [0]
        for _ in range(50):
            command = [sys.executable, "-m", "vllm_gate", "shadow", "--resume"]
            process = subprocess.Popen(command, cwd=killed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if rng.random() < 0.2:  # at any moment, the start included
                time.sleep(rng.uniform(0.1, 0.9))
            else:
                while process.poll() is None and size(killed / JOURNAL) == sizes[-1]:
                    time.sleep(0.01)
                time.sleep(rng.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            process.wait()
            sizes.append(size(killed / JOURNAL))
        ran = vllm_gate("shadow", "--resume", cwd=killed)
    assert ran.code == expected.code
    first, last = facts(whole / REPORT), facts(killed / REPORT)
    assert (last["counts"], last["curve"]) == (first["counts"], first["curve"])
    assert len(set(sizes)) > 30, "it was killed at many different places"
    numbers = [json.loads(line)["number"] for line in (killed / JOURNAL).read_text().splitlines()[1:]]
    assert numbers == list(range(len(numbers)))


# --- shards ------------------------------------------------------------------------------------------------------


def sharded(folder: Path, shards: int) -> list[Path]:
    """The journals of every shard, each run by itself."""
    journals = []
    for shard in range(1, shards + 1):
        journals.append(folder / f"shard-{shard}.jsonl")
        vllm_gate("shadow", "--shard", f"{shard}/{shards}", "--journal", journals[-1], cwd=folder)
    return journals


@pytest.mark.parametrize("rate", [0.0, 0.06])
def test_merged_shards_give_the_verdict_of_one_run_bit_for_bit(tmp_path: Path, rate: float) -> None:
    with canary(tmp_path, share(rate), count=150, task_success_drop_threshold=0.08):
        journals = sharded(tmp_path, 3)
        merged = vllm_gate("merge", *journals, cwd=tmp_path)
        found = facts(tmp_path / REPORT)
        single = vllm_gate("shadow", cwd=tmp_path)
    expected = facts(tmp_path / REPORT)
    assert sum(len(journal.read_text().splitlines()) - 1 for journal in journals) == 150, "no shard was sure by itself"
    assert (found["counts"], found["curve"]) == (expected["counts"], expected["curve"])
    assert merged.code == single.code


def test_shards_that_stop_early_give_the_same_verdict(tmp_path: Path) -> None:
    with canary(tmp_path, always, count=600):
        journals = sharded(tmp_path, 3)
        merged = vllm_gate("merge", *journals, cwd=tmp_path)
    assert sum(len(journal.read_text().splitlines()) - 1 for journal in journals) < 150
    assert merged.code == 1


def test_outcomes_are_never_counted_twice(tmp_path: Path) -> None:
    with canary(tmp_path, never, count=60):
        first, second = sharded(tmp_path, 2)
        twice = vllm_gate("merge", first, first, cwd=tmp_path)
        incomplete = vllm_gate("merge", first, cwd=tmp_path)
        whole = vllm_gate("merge", first, second, cwd=tmp_path)
    assert twice.code == 2
    assert "the same shard as" in twice.err
    assert "no journal of shard 2 of 2" in " ".join(incomplete.out.split())
    assert whole.code == 3
    assert "no journal of" not in whole.out


def test_a_folder_stands_for_its_journals(tmp_path: Path) -> None:
    (tmp_path / "journals").mkdir()
    with canary(tmp_path, never, count=60):
        empty = vllm_gate("merge", "journals", cwd=tmp_path)
        for journal in sharded(tmp_path, 2):
            journal.rename(tmp_path / "journals" / journal.name)
        whole = vllm_gate("merge", "journals", cwd=tmp_path)
        (tmp_path / "journals/shard-2.jsonl").unlink()
        incomplete = vllm_gate("merge", "journals", cwd=tmp_path)
    assert (empty.code, whole.code, incomplete.code) == (2, 3, 3)
    assert "there is no journal (*.jsonl) in this folder" in empty.err
    assert "no journal of" not in whole.out
    assert "no journal of shard 2 of 2" in " ".join(incomplete.out.split())


def test_journals_of_another_canary_are_not_merged(tmp_path: Path) -> None:
    with canary(tmp_path, never, count=30):
        journals = sharded(tmp_path, 2)
        settings = json.loads((tmp_path / "settings.json").read_text())
        settings["gate_config"]["gate_5_shadow_canary"]["task_success_drop_threshold"] = 0.5
        (tmp_path / "settings.json").write_text(json.dumps(settings))
        ran = vllm_gate("merge", *journals, cwd=tmp_path)
    assert ran.code == 2
    assert "begun with another limits" in ran.err


@pytest.mark.parametrize("shard", ["0/2", "3/2", "x", "1", "1/0"])
def test_a_shard_that_does_not_exist_is_a_usage_error(tmp_path: Path, shard: str) -> None:
    with canary(tmp_path, never, count=5):
        ran = vllm_gate("shadow", "--shard", shard, cwd=tmp_path)
    assert ran.code == 2
    assert "I from 1 to N" in ran.err


# --- validators that are commands --------------------------------------------------------------------------------

JUDGE = """\
import json, sys
for line in sys.stdin:
    print("yes" if "Paris" in json.loads(line)["answer"]["text"] else "no", flush=True)
"""


@pytest.mark.parametrize(
    ("script", "code", "told"),
    [
        (JUDGE, 0, "the candidate fails 0"),
        (JUDGE.replace("Paris", "Berlin"), 0, "the candidate fails 0"),  # both sides alike
        ("print('perhaps', flush=True); input()", 3, "answered 'perhaps', not yes or no"),
        ("raise SystemExit", 3, "ended without an answer"),
        ("import time; time.sleep(60)", 3, "did not answer within 0.5 s"),
    ],
)
def test_a_command_validates(tmp_path: Path, script: str, code: int, told: str) -> None:
    (tmp_path / "judge.py").write_text(script)
    validator = {"name": "judge", "command": [sys.executable, "judge.py"], "timeout_sec": 0.5 if code else 20}
    with canary(tmp_path, never, validators=[validator]):
        ran = vllm_gate("shadow", cwd=tmp_path)
    assert ran.code == code, ran.all
    assert told in " ".join(ran.all.split())


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    validator = {"name": "judge", "command": ["./no-such-judge"]}
    with canary(tmp_path, never, validators=[validator]):
        ran = vllm_gate("shadow", cwd=tmp_path)
    assert ran.code == 3
    assert "can't be started" in " ".join(ran.all.split())


def test_a_command_is_no_shell_and_sees_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-planted-0123456789")
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_planted")
    spy = "import os, sys\nopen('seen', 'w').write(repr(sys.argv) + repr(dict(os.environ)))\n" + JUDGE
    (tmp_path / "judge.py").write_text(spy)
    validator = {"name": "judge", "command": [sys.executable, "judge.py", "; touch hacked"]}
    with canary(tmp_path, never, count=10, validators=[validator]):
        config = (tmp_path / "config.toml").read_text()
        (tmp_path / "config.toml").write_text(config.replace('model = "m"', 'model = "m"\napi_key_env = "MY_KEY"', 1))
        vllm_gate("shadow", cwd=tmp_path)
    seen = (tmp_path / "seen").read_text()
    assert "; touch hacked" in seen
    assert not (tmp_path / "hacked").exists()
    assert "planted" not in seen
