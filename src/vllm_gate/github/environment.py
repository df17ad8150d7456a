"""What the Actions runner says of this run: the event, the commit to report on, and where answers go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vllm_gate.errors import UsageError

_NEEDED = ("GITHUB_REPOSITORY", "GITHUB_SHA", "GITHUB_EVENT_NAME", "GITHUB_RUN_ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt of one workflow run."""

    repository: str
    """`owner/name`."""
    event: str
    sha: str
    """The commit that is checked out: on a pull request, the merge commit."""
    head_sha: str
    """The commit that people look at: check runs belong here."""
    run_id: str
    attempt: str = "1"
    api_url: str = "https://api.github.com"
    server_url: str = "https://github.com"
    workspace: Path = Path()
    payload: Mapping[str, Any] = field(default_factory=dict)
    """The event as GitHub sent it."""

    @property
    def url(self) -> str:
        """The page of this attempt."""
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}/attempts/{self.attempt}"

    @property
    def correlation_id(self) -> str:
        """One rollback an attempt: whoever asks again with the same id finds the first one."""
        return f"vllm-gate-{self.run_id}-{self.attempt}"

    @property
    def proposes(self) -> bool:
        """Whether the candidate is only proposed: a pull request, its merge queue, or a workflow or comment on one."""
        started_by = str(_at(self.payload, "workflow_run", "event") or "")
        return any(
            (
                self.event.startswith("pull_request"),
                self.event == "merge_group",
                self.event == "workflow_run" and started_by.startswith("pull_request"),
                self.event == "issue_comment" and _at(self.payload, "issue", "pull_request") is not None,
            )
        )

    @property
    def base_sha(self) -> str:
        """What a pull request would change; "" for other events."""
        return str(_at(self.payload, "pull_request", "base", "sha") or "")

    @property
    def default_branch(self) -> str:
        """ "" where the event does not say."""
        return str(_at(self.payload, "repository", "default_branch") or "")

    @property
    def commented_pull_request(self) -> int | None:
        """The pull request that a comment belongs to: its head must be asked for, the event does not hold it."""
        number = _at(self.payload, "issue", "number")
        return number if self.event == "issue_comment" and self.proposes and isinstance(number, int) else None


def read_run(environ: Mapping[str, str], *, head_sha: str = "") -> Run:
    """The run that the environment describes; `head_sha` overrides where check runs go.

    Raises UsageError outside of GitHub Actions, and when the event file can't be read.
    """
    missing = [name for name in _NEEDED if not environ.get(name)]
    if missing:
        raise UsageError(
            f"not inside GitHub Actions: {', '.join(missing)} not set",
            hint="this is the action's entry point; at a terminal, use `vllm-gate run`",
        )
    payload = _event(environ.get("GITHUB_EVENT_PATH", ""))
    event, sha = environ["GITHUB_EVENT_NAME"], environ["GITHUB_SHA"]
    return Run(
        repository=environ["GITHUB_REPOSITORY"],
        event=event,
        sha=sha,
        head_sha=head_sha or head_of(event, payload, sha),
        run_id=environ["GITHUB_RUN_ID"],
        attempt=environ.get("GITHUB_RUN_ATTEMPT") or "1",
        api_url=environ.get("GITHUB_API_URL") or "https://api.github.com",
        server_url=environ.get("GITHUB_SERVER_URL") or "https://github.com",
        workspace=Path(environ.get("GITHUB_WORKSPACE") or "."),
        payload=payload,
    )


def head_of(event: str, payload: Mapping[str, Any], sha: str) -> str:
    """The commit whose page shows a check run.

    GITHUB_SHA (`sha`) of a pull request is a merge commit that nobody looks at, and of a `workflow_run` or a
    `deployment` it is the tip of the default branch.
    """
    places: tuple[tuple[str, ...], ...] = ()
    if event.startswith("pull_request"):
        places = (("pull_request", "head", "sha"),)
    elif event == "workflow_run":
        places = (("workflow_run", "pull_requests", "0", "head", "sha"), ("workflow_run", "head_sha"))
    elif event == "merge_group":
        places = (("merge_group", "head_sha"),)
    elif event.startswith("deployment"):
        places = (("deployment", "sha"),)
    found = (_at(payload, *place) for place in places)
    return next((str(value) for value in found if value), sha)


def _at(value: Any, *route: str) -> Any:
    for key in route:
        if isinstance(value, list) and key.isdigit():
            value = value[int(key)] if int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _event(path: str) -> Mapping[str, Any]:
    if not path:
        return {}
    try:
        payload = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UsageError(f"GITHUB_EVENT_PATH: {path} can't be read: {problem}") from problem
    return payload if isinstance(payload, dict) else {}
