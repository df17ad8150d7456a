"""GitHub's objects with every field that its description requires, around the few that matter here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAME = "org/deploy"
_SHA = "0" * 40
_TIME = "2026-01-01T00:00:00Z"
_REPOSITORY_LINKS = tuple(
    """
    archive assignees blobs branches collaborators comments commits compare contents contributors deployments downloads
    events forks git_commits git_refs git_tags hooks issue_comment issue_events issues keys labels languages merges
    milestones notifications pulls releases stargazers statuses subscribers subscription tags teams trees
    """.split()  # noqa: SIM905 a table of names reads better without their quotes
)
_USER_LINKS: tuple[str, ...] = (
    "avatar",
    "events",
    "followers",
    "following",
    "gists",
    "html",
    "organizations",
    "received_events",
)
_USER_LINKS += ("repos", "starred", "subscriptions")


def user() -> dict[str, Any]:
    """A simple user."""
    links = {f"{name}_url": f"https://github.com/org/{name}" for name in _USER_LINKS}
    return {
        **links,
        "login": "org",
        "id": 1,
        "node_id": "U_1",
        "gravatar_id": "",
        "url": "https://api.github.com/users/org",
        "type": "Organization",
        "site_admin": False,
    }


def repository(root: str, *, whole: bool = False) -> dict[str, Any]:
    """The repository: minimal, or `whole` as it is answered by its own address."""
    url = f"{root}/repos/{NAME}"
    minimal = {
        **{f"{name}_url": f"{url}/{name}" for name in _REPOSITORY_LINKS},
        "id": 1,
        "node_id": "R_1",
        "name": NAME.partition("/")[2],
        "full_name": NAME,
        "owner": user(),
        "private": True,
        "html_url": f"https://github.com/{NAME}",
        "description": None,
        "fork": False,
        "url": url,
    }
    if not whole:
        return minimal
    counts: tuple[str, ...] = (
        "forks",
        "forks_count",
        "open_issues",
        "open_issues_count",
        "size",
        "stargazers_count",
        "watchers",
    )
    counts += ("watchers_count", "network_count", "subscribers_count")
    switches = (
        "has_issues",
        "has_projects",
        "has_downloads",
        "has_wiki",
        "has_pages",
        "has_discussions",
        "archived",
        "disabled",
    )
    return {
        **minimal,
        **dict.fromkeys(counts, 0),
        **dict.fromkeys(switches, False),
        **{f"{name}_url": f"https://github.com/{NAME}" for name in ("clone", "git", "ssh", "svn")},
        **dict.fromkeys(("homepage", "language", "mirror_url", "license"), None),
        **dict.fromkeys(("pushed_at", "created_at", "updated_at"), _TIME),
        "default_branch": "main",
    }


def check_run(number: int, run: Mapping[str, Any], annotations: int, root: str) -> dict[str, Any]:
    """A check run; `run` is what was sent for it so far."""
    url = f"{root}/repos/{NAME}/check-runs/{number}"
    output = run.get("output") or {}
    return {
        "id": number,
        "node_id": f"CR_{number}",
        "head_sha": run["head_sha"],
        "name": run["name"],
        "external_id": run.get("external_id"),
        "url": url,
        "html_url": f"https://github.com/{NAME}/runs/{number}",
        "details_url": run.get("details_url"),
        "status": run["status"],
        "conclusion": run.get("conclusion"),
        "started_at": run.get("started_at"),
        "completed_at": run.get("completed_at"),
        "check_suite": {"id": 1},
        "app": None,
        "pull_requests": [],
        "output": {
            "title": output.get("title"),
            "summary": output.get("summary"),
            "text": output.get("text"),
            "annotations_count": annotations,
            "annotations_url": f"{url}/annotations",
        },
    }


def workflow_run(number: int, title: str, workflow: str, ref: str, root: str) -> dict[str, Any]:
    """A workflow run that was just dispatched."""
    url = f"{root}/repos/{NAME}/actions/runs/{number}"
    links = {
        f"{name}_url": f"{url}/{name}"
        for name in ["jobs", "logs", "check_suite", "cancel", "rerun", "artifacts", "workflow"]
    }
    return {
        **links,
        "id": number,
        "node_id": f"WR_{number}",
        "name": title,
        "display_title": title,
        "head_branch": ref,
        "head_sha": _SHA,
        "path": f".github/workflows/{workflow}",
        "run_number": number,
        "event": "workflow_dispatch",
        "status": "queued",
        "conclusion": None,
        "workflow_id": 1,
        "url": url,
        "html_url": f"https://github.com/{NAME}/actions/runs/{number}",
        "pull_requests": [],
        "created_at": _TIME,
        "updated_at": _TIME,
        "head_commit": None,
        "repository": repository(root),
        "head_repository": repository(root),
    }


def file_contents(path: str, base64_text: str, size: int, root: str) -> dict[str, Any]:
    """A file of the repository."""
    url = f"{root}/repos/{NAME}/contents/{path}"
    page = f"https://github.com/{NAME}/blob/main/{path}"
    return {
        "type": "file",
        "encoding": "base64",
        "size": size,
        "name": path.rpartition("/")[2],
        "path": path,
        "content": base64_text,
        "sha": _SHA,
        "url": url,
        "git_url": url,
        "html_url": page,
        "download_url": page,
        "_links": {"git": url, "html": page, "self": url},
    }


def pull_request(number: int, head: str, root: str) -> dict[str, Any]:
    """An open pull request whose head is the commit `head`."""
    url = f"{root}/repos/{NAME}/pulls/{number}"
    whole = repository(root, whole=True)
    names = ["comments", "commits", "diff", "html", "issue", "patch", "review_comment", "review_comments", "statuses"]
    linked = ["comments", "commits", "statuses", "html", "issue", "review_comments", "review_comment", "self"]
    nothing = [
        "assignee",
        "body",
        "closed_at",
        "merge_commit_sha",
        "merged_at",
        "milestone",
        "auto_merge",
        "mergeable",
        "merged_by",
    ]
    return {
        **{f"{name}_url": f"{url}/{name}" for name in names},
        **dict.fromkeys(nothing),
        **dict.fromkeys(["additions", "changed_files", "comments", "commits", "deletions", "review_comments"], 0),
        **dict.fromkeys(("locked", "merged", "maintainer_can_modify"), False),
        **dict.fromkeys(("created_at", "updated_at"), _TIME),
        "_links": {name: {"href": f"{url}/{name}"} for name in linked},
        "id": number,
        "node_id": f"PR_{number}",
        "number": number,
        "state": "open",
        "title": "a release",
        "labels": [],
        "user": user(),
        "author_association": "MEMBER",
        "mergeable_state": "unknown",
        "url": url,
        "head": {"label": "org:release", "ref": "release", "repo": whole, "sha": head, "user": user()},
        "base": {"label": "org:main", "ref": "main", "repo": whole, "sha": _SHA, "user": user()},
    }
