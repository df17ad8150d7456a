"""`vllm-gate localize`, from reports of real runs on the simulator."""

from pathlib import Path

import pytest
from tests.cli.console import release, vllm_gate


def test_the_original_fault_vanishes_at_tp_1(tmp_path: Path) -> None:
    for switch, tp in (("as-is", 4), ("tp-1", 1)):
        with release(tmp_path, "fp32_as_bf16", tp=tp):
            vllm_gate("run", "--gates", "3", "--report-dir", switch, cwd=tmp_path)
    ran = vllm_gate("localize", "as-is=as-is/report.json", "tp-1=tp-1/report.json", cwd=tmp_path)
    assert (ran.code, ran.out.splitlines()[0]) == (0, "The fault vanishes with: tp-1.")
    assert "nan\\_argmax" in ran.out


def test_the_table_goes_to_the_job_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.json").write_text('{"verdict": "fail", "gates": []}')
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert vllm_gate("localize", "--summary", "as-is=r.json", cwd=tmp_path).code == 0
    assert "| as-is | fail |" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(
    ("argument", "words"),
    [("r.json", "not of the form"), ("a=missing.json", "no such report"), ("a=r.json", "no report of vllm-gate")],
)
def test_what_is_no_report_is_exit_2(tmp_path: Path, argument: str, words: str) -> None:
    (tmp_path / "r.json").write_text("[]")
    ran = vllm_gate("localize", argument, cwd=tmp_path)
    assert ran.code == 2
    assert words in ran.err


def test_a_switch_named_twice_is_exit_2(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"verdict": "pass", "gates": []}')
    assert vllm_gate("localize", "a=r.json", "a=r.json", cwd=tmp_path).code == 2
