"""A stand-in for GitHub's REST API: check runs, workflow dispatches and runs, file contents of one repository.

It keeps state, answers in GitHub's shapes, holds the limits that GitHub's own OpenAPI description leaves out, and
fails on demand as GitHub does: see `Trouble`.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from vllm_gate.simulator.github_limits import Refused, hold_limits
from vllm_gate.simulator.github_objects import check_run, file_contents, pull_request, repository, workflow_run

TROUBLES = (
    "fork_token",
    "personal_token",
    "secondary_limit",
    "secondary_limit_once",
    "primary_limit_once",
    "reject_annotations",
    "reset",
    "bad_gateway",
    "bad_gateway_once",
    "lost_answer_once",
    "slow",
)
"""What can be wrong, by name: a read-only token, a PAT, rate limits (the secondary one without `retry-after`),
annotations that are refused, connections that are reset, 502, a request that is carried out and not answered, 20 s of
silence before each answer."""
_SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer, as they went over the wire."""

    method: str
    path: str
    """With the query."""
    headers: Mapping[str, str]
    body: bytes
    status: int
    answer: bytes
    at: float
    """Monotonic seconds."""


@dataclass(slots=True)
class Workflow:
    """A workflow file. `run_name` is its `run-name`, with `{input}` for each input it shows."""

    inputs: tuple[str, ...] = ("reason", "conditions", "sha", "run_url", "model", "from", "correlation_id")
    run_name: str = "rollback {correlation_id}"
    dispatchable: bool = True


@dataclass(slots=True)
class GitHubStandIn:
    """`org/deploy` on loopback. Use as a context manager; `url` is its API root."""

    trouble: str = ""
    run_details: bool = True
    """Whether dispatches can answer with their run: GitHub Enterprise Server can't."""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Ref to path to content."""
    workflows: dict[str, Workflow] = field(default_factory=lambda: {"rollback.yml": Workflow()})
    prefix: str = ""
    """`/api/v3` for an Enterprise server."""
    exchanges: list[Exchange] = field(default_factory=list)
    check_runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    annotations: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    heads: dict[int, str] = field(default_factory=dict)
    """Pull request to head commit."""
    _server: ThreadingHTTPServer | None = None
    _troubled: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """The API root, as GITHUB_API_URL."""
        assert self._server is not None, "start it first"
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.prefix}"

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"github": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()

    def open_check_runs(self) -> list[str]:
        """Names of those that are not completed."""
        return [run["name"] for run in self.check_runs.values() if run["status"] != "completed"]

    # What the handler calls, one request at a time.

    def answer(self, method: str, target: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Status and JSON of one request. Raises Refused."""
        parts = urlsplit(target)
        path = parts.path.removeprefix(self.prefix)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        self._fail(method, path, body)
        for verb, pattern, route in _ROUTES:
            found = re.fullmatch(pattern, path)
            if verb == method and found:
                return route(self, {**found.groupdict(), **query}, body)
        raise Refused(404, "Not Found")

    def _fail(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        writing = method != "GET"
        first = self._troubled == 0
        self._troubled += 1
        if self.trouble == "fork_token" and writing:
            raise Refused(403, "Resource not accessible by integration")
        if self.trouble == "personal_token" and "/check-runs" in path and writing:
            raise Refused(403, "You must authenticate via a GitHub App.")
        if self.trouble == "secondary_limit" or (self.trouble == "secondary_limit_once" and first):
            raise Refused(
                403, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
            )
        if self.trouble == "primary_limit_once" and first:
            reset = str(int(time.time()) + 1)
            raise Refused(403, "API rate limit exceeded", x_ratelimit_remaining="0", x_ratelimit_reset=reset)
        if self.trouble == "bad_gateway" or (self.trouble == "bad_gateway_once" and first):
            raise Refused(502, "Server Error")
        if self.trouble == "reject_annotations" and (body.get("output") or {}).get("annotations"):
            raise Refused(
                422, "Validation Failed", [{"resource": "CheckRun", "code": "invalid", "field": "annotations"}]
            )

    def loses_the_answer(self, method: str) -> bool:
        """Whether this request is carried out and its answer is lost on the way."""
        lost = self.trouble == "lost_answer_once" and method == "POST"
        if lost:
            self.trouble = ""
        return lost

    def _create_check_run(self, _: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, Any]:
        hold_limits(body)
        number = len(self.check_runs) + 1
        self.check_runs[number] = dict(body) | {"status": body.get("status", "queued")}
        self.annotations[number] = []
        return 201, self._apply(number, body)

    def _update_check_run(self, at: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, Any]:
        number = int(at["id"])
        if number not in self.check_runs:
            raise Refused(404, "Not Found")
        hold_limits(body)
        return 200, self._apply(number, body)

    def _apply(self, number: int, body: Mapping[str, Any]) -> dict[str, Any]:
        run = self.check_runs[number]
        output = dict(body.get("output") or {})
        self.annotations[number] += output.pop("annotations", [])
        run |= {**body, "output": {**run.get("output", {}), **output}}
        if "conclusion" in body:
            run["status"] = "completed"
        return check_run(number, run, len(self.annotations[number]), self.url)

    def _list_check_runs(self, at: Mapping[str, str], _: Mapping[str, Any]) -> tuple[int, Any]:
        named = {
            number: run
            for number, run in self.check_runs.items()
            if run["head_sha"] == at["ref"] and run["name"] == at.get("check_name", run["name"])
        }
        if at.get("filter", "latest") == "latest":
            latest = {run["name"]: number for number, run in named.items()}
            named = {number: named[number] for number in sorted(latest.values())}
        listed = [check_run(number, run, len(self.annotations[number]), self.url) for number, run in named.items()]
        return 200, {"total_count": len(listed), "check_runs": listed[: int(at.get("per_page", 30))]}

    def _dispatch(self, at: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, Any]:
        workflow = self.workflows.get(at["workflow"])
        if workflow is None:
            raise Refused(404, "Not Found")
        if not workflow.dispatchable:
            raise Refused(422, "Workflow does not have 'workflow_dispatch' trigger")
        if "return_run_details" in body and not self.run_details:
            raise Refused(422, 'Invalid request.\n\n"return_run_details" is not a permitted key.')
        inputs = body.get("inputs") or {}
        unknown = [name for name in inputs if name not in workflow.inputs]
        if unknown:
            raise Refused(422, f"Unexpected inputs provided: {json.dumps(unknown)}")
        most = 25 if self.run_details else 10
        if len(inputs) > most:
            raise Refused(422, f"Invalid request.\n\nNo more than {most} properties are allowed")
        if sum(len(str(value)) for value in inputs.values()) > 65_535:
            raise Refused(422, "inputs are too large.")
        title = workflow.run_name.format_map({**dict.fromkeys(workflow.inputs, ""), **inputs})
        run = workflow_run(len(self.runs) + 1, title, at["workflow"], body["ref"], self.url)
        self.runs.append(run)
        if body.get("return_run_details"):
            return 200, {"workflow_run_id": run["id"], "run_url": run["url"], "html_url": run["html_url"]}
        return 204, None

    def _list_runs(self, at: Mapping[str, str], _: Mapping[str, Any]) -> tuple[int, Any]:
        if at["workflow"] not in self.workflows:
            raise Refused(404, "Not Found")
        branch, event = at.get("branch"), at.get("event")
        listed = [
            run
            for run in reversed(self.runs)
            if run["path"].endswith(f"/{at['workflow']}")
            and branch in (None, run["head_branch"])
            and event in (None, run["event"])
        ]
        return 200, {"total_count": len(listed), "workflow_runs": listed[: int(at.get("per_page", 30))]}

    def _contents(self, at: Mapping[str, str], _: Mapping[str, Any]) -> tuple[int, Any]:
        path = unquote(at["path"])
        content = self.files.get(at.get("ref", "main"), {}).get(path)
        if content is None:
            raise Refused(404, "Not Found")
        return 200, file_contents(path, base64.encodebytes(content).decode(), len(content), self.url)

    def _repository(self, _: Mapping[str, str], __: Mapping[str, Any]) -> tuple[int, Any]:
        return 200, repository(self.url, whole=True)

    def _pull(self, at: Mapping[str, str], _: Mapping[str, Any]) -> tuple[int, Any]:
        number = int(at["number"])
        if number not in self.heads:
            raise Refused(404, "Not Found")
        return 200, pull_request(number, self.heads[number], self.url)


_REPO = r"/repos/org/deploy"
_ROUTES: tuple[
    tuple[str, str, Callable[[GitHubStandIn, Mapping[str, str], Mapping[str, Any]], tuple[int, Any]]], ...
] = (
    ("POST", rf"{_REPO}/check-runs", GitHubStandIn._create_check_run),
    ("PATCH", rf"{_REPO}/check-runs/(?P<id>\d+)", GitHubStandIn._update_check_run),
    ("GET", rf"{_REPO}/commits/(?P<ref>[^/]+)/check-runs", GitHubStandIn._list_check_runs),
    ("POST", rf"{_REPO}/actions/workflows/(?P<workflow>[^/]+)/dispatches", GitHubStandIn._dispatch),
    ("GET", rf"{_REPO}/actions/workflows/(?P<workflow>[^/]+)/runs", GitHubStandIn._list_runs),
    ("GET", rf"{_REPO}/contents/(?P<path>.+)", GitHubStandIn._contents),
    ("GET", rf"{_REPO}/pulls/(?P<number>\d+)", GitHubStandIn._pull),
    ("GET", _REPO, GitHubStandIn._repository),
)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no event."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    github: GitHubStandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PATCH(self) -> None:
        self._handle()

    def log_message(self, *args: Any) -> None:
        """Silent."""

    def _handle(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.github.trouble == "reset":
            self.close_connection = True
            return
        if self.github.trouble == "slow":
            time.sleep(20)
        headers: dict[str, str] = {}
        with self.github._lock:
            try:
                if not self.headers.get("Authorization", "").startswith("Bearer "):
                    raise Refused(401, "Requires authentication")
                status, answer = self.github.answer(self.command, self.path, json.loads(content or b"{}"))
            except Refused as refused:
                status, answer, headers = refused.status, refused.body, refused.headers
            raw = b"" if answer is None else json.dumps(answer).encode()
            self.github.exchanges.append(
                Exchange(self.command, self.path, dict(self.headers), content, status, raw, time.monotonic())
            )
            if self.github.loses_the_answer(self.command):
                self.close_connection = True
                return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if raw:
            self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
