"""Traffic logs, packed or not, and what is said of damaged ones."""

import gzip
import sys
from pathlib import Path

import pytest

from vllm_gate.app.traffic import open_traffic
from vllm_gate.errors import FileProblem

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CONTENT = b'{"a": 1}\n{"b": 2}\n' * 1_000


def lines(path: Path) -> list[bytes]:
    with open_traffic(path) as content:
        return list(content)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress])
@pytest.mark.parametrize("name", ["t.jsonl", "t.gz"])
def test_the_first_bytes_say_how_it_is_packed(tmp_path: Path, pack: object, name: str) -> None:
    assert callable(pack)
    (tmp_path / name).write_bytes(pack(CONTENT))
    assert lines(tmp_path / name) == CONTENT.splitlines(keepends=True)


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_parts_put_one_behind_the_other_are_read_as_one(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    (tmp_path / "t").write_bytes(pack(CONTENT) + pack(CONTENT))
    assert b"".join(lines(tmp_path / "t")) == CONTENT * 2


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
@pytest.mark.parametrize("missing", [1, 12])
def test_a_cut_file_says_so(tmp_path: Path, pack: object, missing: int) -> None:
    assert callable(pack)
    (tmp_path / "t").write_bytes(pack(CONTENT)[:-missing])
    with pytest.raises(FileProblem, match="cut or damaged"):
        lines(tmp_path / "t")


def test_what_only_begins_as_zstd_says_so(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(zstd.compress(CONTENT)[:4] + b"and then text")
    with pytest.raises(FileProblem, match="cut or damaged"):
        lines(tmp_path / "t")


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="can't be read"):
        lines(tmp_path / "none")


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"")
    assert lines(tmp_path / "t") == []
