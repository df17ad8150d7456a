"""The judge of every exchange can say no."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openapi_core.exceptions import OpenAPIError
from tests.github.contract import BrokenError, judge

from vllm_gate.simulator.github import Exchange

REFUSAL = {"message": "Validation Failed", "documentation_url": "https://docs.github.com/rest"}
CHECK_RUN = {"name": "x", "head_sha": "a" * 40, "status": "in_progress"}


def sent(body: dict[str, Any], path: str = "/repos/org/deploy/check-runs", method: str = "POST") -> Exchange:
    headers, refusal = {"Content-Type": "application/json"}, json.dumps(REFUSAL).encode()
    return Exchange(method, path, headers, json.dumps(body).encode(), 422, refusal, 0.0)


def test_a_right_request_passes() -> None:
    assert judge([sent(CHECK_RUN)]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        sent({"head_sha": "a" * 40}),
        sent({**CHECK_RUN, "conclusion": "broken"}),
        sent({**CHECK_RUN, "output": {"title": "t"}}),
        sent({**CHECK_RUN, "output": {"title": "t", "summary": "s", "annotations": [{"path": "a"}]}}),
        sent({"status": "completed"}, "/repos/org/deploy/check-runs/1", "PATCH"),
        sent({"inputs": {}}, "/repos/org/deploy/actions/workflows/rollback.yml/dispatches"),
        sent({"ref": "main", "inputs": {str(i): "" for i in range(26)}}, "/repos/o/r/actions/workflows/r/dispatches"),
        sent({}, "/repos/org/deploy/no-such-thing"),
        replace(sent(CHECK_RUN), status=201, answer=b'{"id": 1}'),
    ],
)
def test_a_wrong_one_is_refused(wrong: Exchange) -> None:
    with pytest.raises(OpenAPIError):
        judge([wrong])


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (422, {"message": "Validation Failed"}),
        (422, {**REFUSAL, "errors": [{"field": "annotations"}]}),
        (422, {**REFUSAL, "errors": "annotations"}),
        (403, {"message": 403, "documentation_url": ""}),
        (502, {}),
    ],
)
def test_an_error_in_no_shape_of_github_s_is_refused(status: int, error: dict[str, Any]) -> None:
    with pytest.raises(BrokenError):
        judge([replace(sent(CHECK_RUN), status=status, answer=json.dumps(error).encode())])


@pytest.mark.parametrize("errors", [[], [{"code": "invalid", "field": "annotations"}], ["a text"]])
def test_both_shapes_of_a_refusal_are_github_s(errors: list[Any]) -> None:
    assert judge([replace(sent(CHECK_RUN), answer=json.dumps({**REFUSAL, "errors": errors}).encode())]) == 1


def test_no_test_starts_a_stand_in_that_nobody_judges() -> None:
    """Prism judges its own; the stand-in's own test sends nothing over the wire."""
    tests = Path(__file__).parents[1]
    starting = {path for path in tests.rglob("test_*.py") if "GitHubStandIn(" in path.read_text()}
    starting -= {tests / "prism" / "test_prism.py", tests / "simulator" / "test_github.py", Path(__file__)}
    assert [path for path in starting if "judge(stand_in.exchanges" not in path.read_text()] == []
