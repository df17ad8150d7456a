"""Files of a commit, read through GitHub: a pull request's own settings can't be trusted to judge it."""

from __future__ import annotations

import base64
import posixpath
from pathlib import Path
from urllib.parse import quote

from vllm_gate.errors import FileProblem
from vllm_gate.github.api import GitHubApi
from vllm_gate.github.errors import Denied, GitHubError

_NOT_YET = "where {} has no such file yet, leave config-ref out of the pull request that adds it"


class CommitFiles:
    """The repository's files at `ref` (a branch, tag or commit). Needs `permissions: contents: read`."""

    def __init__(self, api: GitHubApi, ref: str) -> None:
        self._api = api
        self._ref = ref

    def read(self, path: Path, what: str) -> bytes:
        """The content of a file named relative to the repository's root. Raises FileProblem."""
        name = posixpath.normpath(path.as_posix())
        if path.is_absolute() or name.startswith(".."):
            raise FileProblem(f"{path}: with config-ref, the {what} must lie inside the repository")
        try:
            found = self._api.get(f"/contents/{quote(name, safe='')}", ref=self._ref).data
        except GitHubError as problem:
            hint = f"{_NOT_YET.format(self._ref)}; else {problem.hint}" if isinstance(problem, Denied) else problem.hint
            raise FileProblem(f"{path}: the {what} can't be read at {self._ref}: {problem}", hint=hint) from None
        file = found if isinstance(found, dict) else {}
        content = file.get("content")
        if not isinstance(content, str) or file.get("encoding") != "base64":
            raise FileProblem(
                f"{path}: the {what} at {self._ref} is no file that GitHub shows (a folder, or over 1 MB)"
            )
        return base64.b64decode(content)

    def exists(self, path: Path) -> bool:
        """Whether there is such a file. Raises GitHubError when that can't be told."""
        try:
            self._api.get(f"/contents/{quote(posixpath.normpath(path.as_posix()), safe='')}", ref=self._ref)
        except Denied:
            return False
        return True
