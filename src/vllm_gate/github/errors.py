"""How a request to GitHub fails. The message says what was asked and what came back; the hint what to change."""

from __future__ import annotations

from vllm_gate.errors import CouldNotJudge


class GitHubError(CouldNotJudge):
    """Base of the three below. Never changes a verdict: whoever calls GitHub goes on without it."""


class Denied(GitHubError):
    """401, 403 or 404: the token may not do this, or there is no such thing."""


class Invalid(GitHubError):
    """400 or 422: GitHub does not take this body. `details` are its reasons, one a line."""

    def __init__(self, message: str, *, hint: str = "", details: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.details = details


class Unavailable(GitHubError):
    """No answer, 5xx, or a rate limit that lasts longer than a verdict should wait."""
