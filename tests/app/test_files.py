"""Files are written whole or not at all, and problems are told in the user's words."""

import os
from pathlib import Path

import pytest

from vllm_gate.app.files import read_bytes, write_atomically
from vllm_gate.errors import FileProblem


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "report.json"
    write_atomically(target, b"{}")
    assert target.read_bytes() == b"{}"
    assert [path.name for path in target.parent.iterdir()] == ["report.json"]


def test_a_failed_write_leaves_the_old_content_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.json"
    target.write_bytes(b"old")

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", no_space)
    with pytest.raises(FileProblem, match="No space left on device"):
        write_atomically(target, b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("report.json", b"old")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_belongs_to_the_owner_of_its_folder(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    write_atomically(tmp_path / "reports" / "report.json", b"{}")
    assert (tmp_path / "reports").stat().st_uid == 12345
    assert (tmp_path / "reports" / "report.json").stat().st_gid == 12345


def test_a_missing_file_names_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "setting.json").write_text("{}")
    with pytest.raises(FileProblem) as missing:
        read_bytes(tmp_path / "settings.json", "settings file")
    assert "there is no such settings file" in str(missing.value)
    assert "setting.json" in missing.value.hint


def test_a_folder_in_place_of_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="can't be read"):
        read_bytes(tmp_path, "settings file")


def test_a_file_too_large_to_be_right_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 11)
    with pytest.raises(FileProblem, match="11 bytes"):
        read_bytes(tmp_path / "big", "settings file", limit=10)
