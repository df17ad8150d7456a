"""Reading what the user names and writing what the run leaves behind: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from vllm_gate.errors import FileProblem


def read_bytes(path: Path, what: str, limit: int = 64 * 2**20) -> bytes:
    """The content of a file the user named as `what`. Raises FileProblem in the user's words."""
    try:
        size = path.stat().st_size
        if size > limit:
            raise FileProblem(f"{path}: the {what} has {size:,} bytes; more than {limit:,} can't be right")
        return path.read_bytes()
    except FileNotFoundError as missing:
        raise FileProblem(f"{path}: there is no such {what}", hint=_nearby(path)) from missing
    except OSError as problem:
        raise FileProblem(f"{path}: the {what} can't be read: {problem.strerror}") from problem


def write_atomically(path: Path, content: bytes) -> None:
    """Write all of `content` or nothing, owned like the folder it goes into. Raises FileProblem.

    The owner matters in a container action: files left root-owned in the workspace break the next checkout.
    """
    try:
        _make_folder(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content)
            Path(temporary).chmod(0o644)
            _own_like(path.parent, Path(temporary))
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise FileProblem(f"{path}: can't be written: {problem.strerror}") from problem


def _make_folder(folder: Path) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        _own_like(made.parent, made)


def _own_like(model: Path, path: Path) -> None:
    owner = model.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.chown(path, owner.st_uid, owner.st_gid)


def _nearby(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist; paths are taken from {Path.cwd()}"
    same_kind = sorted(other.name for other in folder.iterdir() if other.suffix == path.suffix and other.is_file())
    found = f"; there is {', '.join(same_kind[:5])}" if same_kind else ""
    return f"`vllm-gate init` writes starter files; paths are taken from {Path.cwd()}{found}"
