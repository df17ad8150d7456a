"""Check runs: opened when a run starts, completed one by one, and closed whatever happens. Nothing here raises."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllm_gate.github.api import Answer, GitHubApi
from vllm_gate.github.errors import GitHubError, Invalid, Unavailable

BATCH = 50
"""Annotations that one request may hold."""
CLOSING_S = 8.0
"""For closing everything: the runner kills ten seconds after its first signal."""
_LOOKS = 3
_LOOK_S = 1.0
_PAUSE_S = 0.75
"""Looks for a check run whose creation was interrupted: GitHub may still be at it."""


@dataclass(slots=True)
class _Open:
    id: int
    url: str
    sent: set[str] = field(default_factory=set)
    """Annotations that GitHub has: it appends, and a gate may be told twice."""
    completed: bool = False


class CheckRuns:
    """The check runs of one attempt. `api` is None where none are wanted.

    `degraded` says why check runs are missing, once something went wrong; the run goes on without them.
    """

    def __init__(
        self,
        api: GitHubApi | None,
        *,
        head_sha: str,
        details_url: str,
        external_id: str,
        utc: Callable[[], str],
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """`external_id` names the attempt, `utc` tells the time as ISO 8601, `now` in monotonic seconds."""
        self._api = api
        self._head_sha, self._details_url, self._external_id = head_sha, details_url, external_id
        self._utc, self._now, self._sleep = utc, now, sleep
        self._open: dict[str, _Open] = {}
        self._asked: dict[str, tuple[str, str]] = {}
        """Name and external id of what was asked for. An interruption may come before GitHub's answer."""
        self._endings: dict[str, dict[str, Any]] = {}
        """How each should end. GitHub may not have heard it yet."""
        self.degraded = "" if api else "check runs are switched off"

    @property
    def urls(self) -> tuple[str, ...]:
        """The pages of the check runs that were made."""
        return tuple(run.url for run in self._open.values() if run.url)

    def open(self, key: str, name: str) -> None:
        """Make a check run that is in progress. `key` names it in later calls."""
        if self._api is None or self.degraded:
            return
        external = f"{self._external_id}/{key}"
        self._asked[key] = (name, external)
        body = {
            "name": name,
            "head_sha": self._head_sha,
            "status": "in_progress",
            "started_at": self._utc(),
            "details_url": self._details_url,
            "external_id": external,
        }
        try:
            self._keep(key, self._api.post("/check-runs", body, already=lambda: self._find(name, external)))
        except GitHubError as problem:
            if not isinstance(problem, Unavailable):
                del self._asked[key]  # refused: there is nothing to look for
            self._degrade(problem)

    def complete(
        self, key: str, *, conclusion: str, output: Mapping[str, Any], annotations: Sequence[Mapping[str, Any]]
    ) -> None:
        """Complete a check run, or tell a completed one again. `output` holds title, summary and text.

        The conclusion comes with the last batch of annotations: whoever sees it sees all of them.
        """
        self._endings[key] = {**self._ending(conclusion), "output": dict(output)}
        run = self._open.get(key)
        if self._api is None or run is None:
            return
        run.completed = False
        unsent = [one for one in annotations if json.dumps(one, sort_keys=True) not in run.sent]
        batches = [unsent[start : start + BATCH] for start in range(0, len(unsent), BATCH)] or [[]]
        try:
            for batch in batches:
                last = batch is batches[-1]
                body = self._ending(conclusion) if last else {}
                self._update(run, {**body, "output": {**output, "annotations": batch}})
                run.sent |= {json.dumps(one, sort_keys=True) for one in batch}
                run.completed = last
        except GitHubError as problem:
            self._degrade(problem)

    def close(self, why: str, *, conclusion: str = "cancelled") -> None:
        """Close whatever is still open, within `CLOSING_S` seconds, one try each and all at once.

        What was completed and could not be told ends as it should have; the rest with `conclusion`.
        """
        api = self._api
        if api is None:
            return
        until = self._now() + CLOSING_S
        self._find_unanswered()
        unheard = {"output": {"title": why[:200], "summary": why[:60_000]}}

        def end(key: str, run: _Open) -> None:
            body = self._endings.get(key) or {**self._ending(conclusion), **unheard}
            try:
                api.patch(f"/check-runs/{run.id}", body, hurry_s=max(until - self._now(), 0.1))
                run.completed = True
            except GitHubError as problem:
                self._degrade(problem)

        still_open = [(key, run) for key, run in self._open.items() if not run.completed]
        # Threads that nobody waits for in the end: a server that trickles would outlive any timeout of its socket.
        threads = [threading.Thread(target=end, args=each, daemon=True) for each in still_open]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(until - self._now(), 0.0))
        if not all(run.completed for _, run in still_open):
            self.degraded = self.degraded or "GitHub did not answer in time, and check runs may be left open"

    def _keep(self, key: str, answer: Answer) -> None:
        made = answer.data
        if isinstance(made, dict) and isinstance(made.get("id"), int):
            self._open[key] = _Open(made["id"], str(made.get("html_url") or ""))
        else:
            self.degraded = self.degraded or "GitHub made a check run and did not say which"

    def _find_unanswered(self) -> None:
        """Take up the check runs that were asked for, and whose answer never came."""
        for key in self._asked.keys() - self._open.keys():
            for look in range(_LOOKS):
                if look:
                    self._sleep(_PAUSE_S)
                try:
                    found = self._find(*self._asked[key], hurry_s=_LOOK_S)
                except GitHubError as problem:
                    self._degrade(problem)
                    return
                if found is not None:
                    self._keep(key, found)
                    break

    def _ending(self, conclusion: str) -> dict[str, str]:
        return {"status": "completed", "conclusion": conclusion, "completed_at": self._utc()}

    def _update(self, run: _Open, body: dict[str, Any]) -> None:
        """PATCH it. GitHub says of a bad annotation only that one is bad: the verdict then goes without them all."""
        assert self._api is not None
        try:
            self._api.patch(f"/check-runs/{run.id}", body)
        except Invalid as refused:
            if not body["output"]["annotations"]:
                raise
            self.degraded = self.degraded or f"annotations were refused: {refused}"
            self._api.patch(f"/check-runs/{run.id}", {**body, "output": {**body["output"], "annotations": []}})

    def _find(self, name: str, external_id: str, hurry_s: float | None = None) -> Answer | None:
        """The check run that an unanswered request has made, if it has."""
        assert self._api is not None
        listed = self._api.get(f"/commits/{self._head_sha}/check-runs", check_name=name, filter="all", hurry_s=hurry_s)
        runs = listed.data.get("check_runs") if isinstance(listed.data, dict) else None
        return next((Answer(200, run) for run in runs or () if run.get("external_id") == external_id), None)

    def _degrade(self, problem: GitHubError) -> None:
        self.degraded = self.degraded or " ".join(filter(None, (str(problem), problem.hint and f"({problem.hint})")))
