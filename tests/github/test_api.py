"""The client against a server that answers as GitHub does, and as it does on a bad day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from tests.server.loopback import Answer as Reply
from tests.server.loopback import Loopback, Request, http

from vllm_gate.core.secret import Secret
from vllm_gate.github.api import Answer, GitHubApi
from vllm_gate.github.errors import Denied, GitHubError, Invalid, Unavailable

TOKEN = "ghs_planted0123456789"


@dataclass
class GitHub:
    """Answers in the order given, the last one for ever; time passes only in sleep."""

    replies: list[Reply] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    root: str = ""
    takes_s: float = 0.0
    """How long each answer takes; nothing really waits."""

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        self.slept += [self.takes_s] if self.takes_s else []
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def api(self, patience_s: float = 120.0) -> GitHubApi:
        return GitHubApi(
            self.root,
            "org/deploy",
            Secret(TOKEN),
            now=lambda: sum(self.slept),
            utc=lambda: 1000.0,
            sleep=self.slept.append,
            patience_s=patience_s,
        )


@pytest.fixture
def github() -> Iterator[GitHub]:
    stand_in = GitHub()
    with Loopback(stand_in) as server:
        stand_in.root = f"{server.root}/api/v3"
        yield stand_in


CUT: Reply = [b""]
"""The connection closes without an answer."""
SECONDARY = http({"message": "You have exceeded a secondary rate limit."}, 403)
FORBIDDEN = http({"message": "Resource not accessible by integration"}, 403)


def test_a_request_carries_token_version_and_json(github: GitHub) -> None:
    github.replies = [http({"id": 4}, 201)]
    assert github.api().post("/check-runs", {"name": "ü"}) == Answer(201, {"id": 4})
    (request,) = github.requests
    assert (request.method, request.path) == ("POST", "/api/v3/repos/org/deploy/check-runs")
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["x-github-api-version"] == "2022-11-28"
    assert headers["content-type"] == "application/json"
    assert request.json == {"name": "ü"}


def test_no_content_is_a_success_without_data(github: GitHub) -> None:
    github.replies = [http(b"", 204)]
    assert github.api().post("/dispatches", {}) == Answer(204, None)


def test_a_chunked_answer_is_read_whole(github: GitHub) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    github.replies = [[head, b'3\r\n{"a\r\n', b'5\r\n": 1}\r\n', b"0\r\n\r\n"]]
    assert github.api().get("/x").data == {"a": 1}


@pytest.mark.parametrize("status", [403, 404])
def test_a_denial_is_not_repeated_and_names_the_permission(github: GitHub, status: int) -> None:
    github.replies = [http({"message": "Resource not accessible by integration"}, status)]
    with pytest.raises(Denied, match=f"POST /check-runs: HTTP {status}") as denied:
        github.api().post("/check-runs", {})
    assert "checks: write" in denied.value.hint
    assert "personal access token" in denied.value.hint
    assert len(github.requests) == 1


def test_a_token_that_is_over_is_no_missing_permission(github: GitHub) -> None:
    github.replies = [http({"message": "Bad credentials"}, 401)]
    with pytest.raises(Denied, match="Bad credentials") as denied:
        github.api().patch("/check-runs/1", {})
    assert "permissions" not in denied.value.hint
    assert "an hour" in denied.value.hint


def test_a_denied_dispatch_names_its_own_permission(github: GitHub) -> None:
    github.replies = [FORBIDDEN]
    with pytest.raises(Denied) as denied:
        github.api().post("/actions/workflows/rollback.yml/dispatches", {})
    assert "actions: write" in denied.value.hint


@pytest.mark.parametrize(
    ("errors", "detail"),
    [
        ([{"resource": "CheckRun", "field": "annotations", "code": "invalid"}], "CheckRun annotations invalid"),
        (["Unexpected inputs"], "Unexpected inputs"),
        ([{"code": "custom", "field": "summary", "message": "too long"}], "summary custom too long"),
    ],
)
def test_reasons_come_as_objects_or_as_texts(github: GitHub, errors: list[object], detail: str) -> None:
    github.replies = [http({"message": "Validation Failed", "errors": errors}, 422)]
    with pytest.raises(Invalid) as invalid:
        github.api().patch("/check-runs/1", {})
    assert invalid.value.details == (detail,)


def test_a_secondary_limit_without_retry_after_is_waited_out(github: GitHub) -> None:
    github.replies = [SECONDARY, http({"id": 1}, 201)]
    assert github.api().post("/check-runs", {}).status == 201
    assert github.slept == [60.0]


def test_patience_ends(github: GitHub) -> None:
    github.replies = [SECONDARY]
    with pytest.raises(Unavailable, match="secondary rate limit"):
        github.api(patience_s=90.0).post("/check-runs", {})
    assert github.slept == [60.0]


def test_patience_is_for_all_requests_together(github: GitHub) -> None:
    github.replies = [SECONDARY]
    api = github.api(patience_s=70.0)
    for _ in range(3):
        with pytest.raises(Unavailable):
            api.get("/x")
    assert sum(github.slept) == 60.0


def test_a_dead_api_uses_patience_up_and_then_gets_one_try_each(github: GitHub) -> None:
    github.replies, github.takes_s = [CUT], 12.0
    api = github.api(patience_s=30.0)
    for tries in (3, 1, 1):
        before = len(github.requests)
        with pytest.raises(Unavailable):
            api.patch("/check-runs/1", {})
        assert len(github.requests) - before == tries  # 12 + 1, 12 + 2, 12: then nothing is left
    github.replies = [http({"id": 1})]
    assert api.patch("/check-runs/1", {}).status == 200


@pytest.mark.parametrize("trouble", [http(b"", 502), CUT])
def test_reading_and_updating_are_tried_again(github: GitHub, trouble: Reply) -> None:
    github.replies = [trouble, trouble, http({"id": 1})]
    assert github.api().patch("/check-runs/1", {}).status == 200
    assert len(github.slept) == 2


@pytest.mark.parametrize("trouble", [http(b"", 502), CUT])
def test_a_creation_of_unknown_outcome_is_not_repeated(github: GitHub, trouble: Reply) -> None:
    github.replies = [trouble, http({"id": 1}, 201)]
    with pytest.raises(Unavailable, match="unknown"):
        github.api().post("/check-runs", {})
    assert len(github.requests) == 1


def test_a_creation_of_unknown_outcome_is_looked_up(github: GitHub) -> None:
    github.replies = [http(b"", 502), http({"id": 1}, 201)]
    assert github.api().post("/x", {}, already=lambda: Answer(200, {"id": 9})) == Answer(200, {"id": 9})
    assert len(github.requests) == 1


def test_a_creation_that_was_not_there_is_sent_again(github: GitHub) -> None:
    github.replies = [http(b"", 502), http({"id": 1}, 201)]
    assert github.api().post("/x", {}, already=lambda: None) == Answer(201, {"id": 1})


def test_in_a_hurry_there_is_one_try(github: GitHub) -> None:
    github.replies = [SECONDARY]
    with pytest.raises(Unavailable):
        github.api().patch("/check-runs/1", {}, hurry_s=1.0)
    assert (len(github.requests), github.slept) == (1, [])


def test_a_redirect_is_not_followed_with_the_token(github: GitHub) -> None:
    github.replies = [http(b"", 307, Location=f"{github.root}/elsewhere")]
    with pytest.raises(GitHubError):
        github.api().get("/x")
    assert len(github.requests) == 1


def test_the_token_is_in_no_error(github: GitHub) -> None:
    github.replies = [http({"message": f"bad token {TOKEN}", "errors": [f"token {TOKEN}"]}, 422)]
    with pytest.raises(Invalid) as invalid:
        github.api().post("/x", {})
    assert TOKEN not in f"{invalid.value} {invalid.value.details}"


def test_an_answer_that_is_no_json_is_quoted(github: GitHub) -> None:
    github.replies = [http(b"<html>\x1b[2Jdown", 403)]
    with pytest.raises(Denied, match="html") as denied:
        github.api().get("/x")
    assert "\x1b" not in str(denied.value)
