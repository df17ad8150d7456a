"""Starts the rollback workflow: once an attempt, found again by its correlation id."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from vllm_gate.github.api import Answer, GitHubApi
from vllm_gate.github.errors import Invalid

POLLS = 6
"""Looks at the list of runs after a dispatch that did not answer with its run."""
POLL_SECONDS = 3.0
INPUT_LIMIT = 1_000
"""Characters of one input. All of them together may have 65,535."""
_RUNS_LISTED = 30


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What came of it."""

    run_url: str
    """"" when the run could not be found again: its `run-name` then lacks the correlation id."""
    already: bool = False
    """Whether an earlier request with the same correlation id had started it."""
    left_out: tuple[str, ...] = ()
    """Inputs that the workflow does not declare."""


def dispatch(
    api: GitHubApi,
    *,
    workflow: str,
    ref: str,
    inputs: Mapping[str, str],
    correlation_id: str,
    sleep: Callable[[float], None],
) -> Dispatched:
    """Start `workflow` (a file name) on `ref`, unless a run with `correlation_id` in its name is there already.

    Raises GitHubError. `correlation_id` is sent as an input of that name; the workflow shows it in its `run-name`.
    """
    earlier = _find(api, workflow, correlation_id)
    if earlier is not None:
        return Dispatched(run_url=earlier, already=True)
    body = {
        "ref": ref,
        "inputs": {key: value[:INPUT_LIMIT] for key, value in {**inputs, "correlation_id": correlation_id}.items()},
        "return_run_details": True,
    }
    answer, left_out = _send(api, workflow, body, correlation_id)
    told = answer.data.get("html_url") if isinstance(answer.data, dict) else None
    return Dispatched(run_url=str(told) if told else _wait_for(api, workflow, correlation_id, sleep), left_out=left_out)


def _send(api: GitHubApi, workflow: str, body: dict[str, Any], correlation_id: str) -> tuple[Answer, tuple[str, ...]]:
    """POST it, without what this server or this workflow does not know: a rollback must not fail for a detail."""
    left_out: tuple[str, ...] = ()

    def already() -> Answer | None:
        found = _find(api, workflow, correlation_id)
        return None if found is None else Answer(status=200, data={"html_url": found})

    for _ in range(3):
        try:
            return api.post(f"{_page(workflow)}/dispatches", body, already=already), left_out
        except Invalid as refused:
            words = " ".join((str(refused), *refused.details))
            unknown = tuple(name for name in _undeclared(words) if name in body["inputs"])
            if "return_run_details" in words and "return_run_details" in body:
                body = {key: value for key, value in body.items() if key != "return_run_details"}
            elif unknown:
                left_out += unknown
                body = {**body, "inputs": {key: value for key, value in body["inputs"].items() if key not in unknown}}
            else:
                raise
    raise AssertionError("there are two things to leave out, and each is left out once")


def _page(workflow: str) -> str:
    return f"/actions/workflows/{quote(workflow, safe='')}"


def _undeclared(words: str) -> tuple[str, ...]:
    """The names in GitHub's `Unexpected inputs provided: ["a", "b"]`."""
    listed = re.search(r"Unexpected inputs provided: \[([^\]]*)\]", words)
    return tuple(re.findall(r'"([^"]+)"', listed[1])) if listed else ()


def _wait_for(api: GitHubApi, workflow: str, correlation_id: str, sleep: Callable[[float], None]) -> str:
    for _ in range(POLLS):
        sleep(POLL_SECONDS)
        found = _find(api, workflow, correlation_id)
        if found is not None:
            return found
    return ""


def _find(api: GitHubApi, workflow: str, correlation_id: str) -> str | None:
    """The page of the run whose name holds the id; None when there is none among the latest."""
    listed = api.get(f"{_page(workflow)}/runs", event="workflow_dispatch", per_page=_RUNS_LISTED).data
    runs = listed.get("workflow_runs") if isinstance(listed, dict) else None
    for run in runs or ():
        title = f"{run.get('display_title')} {run.get('name')} "
        # Not `in` alone: the id of attempt 1 is the beginning of that of attempt 10.
        if re.search(rf"{re.escape(correlation_id)}(?![0-9])", title):
            return str(run.get("html_url") or "")
    return None
