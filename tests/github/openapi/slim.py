"""Cuts GitHub's OpenAPI description down to the operations that vllm-gate uses: `slim.py FULL.json SLIM.json`.

The full file is `generated/api.github.com.json` of the npm package `@octokit/openapi` (MIT, see LICENSE beside this).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OPERATIONS = {
    "/repos/{owner}/{repo}": ["get"],
    "/repos/{owner}/{repo}/check-runs": ["post"],
    "/repos/{owner}/{repo}/check-runs/{check_run_id}": ["patch"],
    "/repos/{owner}/{repo}/commits/{ref}/check-runs": ["get"],
    "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches": ["post"],
    "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/runs": ["get"],
    "/repos/{owner}/{repo}/contents/{path}": ["get"],
    "/repos/{owner}/{repo}/pulls/{pull_number}": ["get"],
}
ERRORS = ("basic-error", "validation-error", "validation-error-simple")
"""Shapes of errors. The operations above mention only some of the errors that they answer with."""
_PROSE = {"examples", "example", "externalDocs", "x-github", "x-octokit"}


def main(full: Path, slim: Path) -> None:
    """Write the cut description."""
    document = json.loads(full.read_text())
    paths = {
        path: {key: value for key, value in document["paths"][path].items() if key in (*methods, "parameters")}
        for path, methods in OPERATIONS.items()
    }
    kept: dict[str, dict[str, Any]] = {}
    waiting = {*_references(paths), *(("schemas", name) for name in ERRORS)}
    while waiting:
        kind, name = waiting.pop()
        if name not in kept.setdefault(kind, {}):
            kept[kind][name] = document["components"][kind][name]
            waiting |= set(_references(kept[kind][name]))
    cut = {
        "openapi": document["openapi"],
        "info": document["info"],
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {kind: dict(sorted(parts.items())) for kind, parts in sorted(kept.items())},
    }
    slim.write_text(json.dumps(_without_prose(cut), indent=1, sort_keys=True) + "\n")


def _references(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref" and isinstance(item, str):
                _, _, kind, name = item.split("/")
                yield kind, name
            elif key not in _PROSE:
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _without_prose(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_prose(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_prose(item) for key, item in value.items() if key not in _PROSE}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
