"""The judge of every exchange can say no."""

import json
from dataclasses import replace
from typing import Any

import pytest
from openapi_core.exceptions import OpenAPIError
from tests.github.contract import judge

from vllm_gate.simulator.github import Exchange

CHECK_RUN = {"name": "x", "head_sha": "a" * 40, "status": "in_progress"}


def sent(body: dict[str, Any], path: str = "/repos/org/deploy/check-runs", method: str = "POST") -> Exchange:
    return Exchange(method, path, {"Content-Type": "application/json"}, json.dumps(body).encode(), 422, b"{}", 0.0)


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
