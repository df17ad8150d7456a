"""What GitHub refuses of a check run, and its OpenAPI description does not mention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BAD_ANNOTATION = {"resource": "CheckRun", "code": "invalid", "field": "annotations"}
"""GitHub does not say which one."""


class Refused(Exception):
    """An error answer."""

    def __init__(self, status: int, message: str, errors: list[Any] | None = None, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, {key.replace("_", "-"): value for key, value in headers.items()}
        self.body = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
        if errors is not None:
            self.body["errors"] = errors  # type: ignore[assignment]


def hold_limits(body: Mapping[str, Any]) -> None:
    """Raises Refused for the first that is broken."""
    if body.get("status") == "completed" and "conclusion" not in body:
        raise Refused(422, 'Invalid request.\n\n"conclusion" wasn\'t supplied.')
    output = body.get("output") or {}
    for key in ("summary", "text"):
        if len(str(output.get(key) or "").encode()) > 65_535:
            error = {
                "resource": "CheckRun",
                "code": "custom",
                "field": key,
                "message": f"{key} exceeds a maximum bytesize of 65535",
            }
            raise Refused(422, "Validation Failed", [error])
    annotations = output.get("annotations") or []
    if len(annotations) > 50:
        raise Refused(422, f"Invalid request.\n\nNo more than 50 items are allowed; {len(annotations)} were supplied.")
    if not all(map(_fine, annotations)):
        raise Refused(422, "Validation Failed", [_BAD_ANNOTATION])


def _fine(annotation: Mapping[str, Any]) -> bool:
    columns = "start_column" in annotation or "end_column" in annotation
    one_line = annotation["start_line"] == annotation["end_line"]
    return (
        bool(annotation["path"])
        and not annotation["path"].startswith("/")
        and annotation["start_line"] >= 1
        and (one_line or not columns)
        and ("start_column" in annotation) == ("end_column" in annotation)
        and len(annotation.get("title", "")) <= 255
        and all(len(annotation.get(key, "").encode()) <= 64 * 1024 for key in ("message", "raw_details"))
    )
