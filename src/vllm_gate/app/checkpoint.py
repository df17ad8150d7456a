"""The first bytes of a checkpoint's files, where this machine can read them: a folder, or the hub's cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vllm_gate.path.checkpoint import CONFIG, LARGEST_HEADER, MODELOPT_CONFIG

_MOST_FILES = 500
_MOST_CONFIG_BYTES = 10_000_000


def read_headers(model: str, environ: Mapping[str, str] = os.environ) -> dict[str, bytes]:
    """`config.json` and ModelOpt's, and of each safetensors file the length and the header; never a weight.

    Empty where the model's folder is not on this machine: a server in a container or elsewhere names its own paths.
    """
    folder = _folder(model, environ)
    if folder is None:
        return {}
    found = {}
    for path in [*sorted(folder.glob("*.safetensors"))[:_MOST_FILES], folder / CONFIG, folder / MODELOPT_CONFIG]:
        try:
            with path.open("rb") as file:
                if path.suffix == ".json":
                    found[path.name] = file.read(_MOST_CONFIG_BYTES)
                else:
                    length = file.read(8)
                    size = int.from_bytes(length, "little")
                    found[path.name] = length + (file.read(size) if size <= LARGEST_HEADER else b"")
        except OSError:
            continue
    return found


def _folder(model: str, environ: Mapping[str, str]) -> Path | None:
    if not model:
        return None
    plain = Path(model)
    if plain.is_dir():
        return plain
    home = Path(environ.get("HF_HOME") or Path(environ.get("HOME") or "/") / ".cache" / "huggingface")
    cache = Path(environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{model.replace('/', '--')}"
    try:
        snapshot = cache / "snapshots" / (cache / "refs" / "main").read_text(encoding="utf-8").strip()
        return snapshot if snapshot.is_dir() else None
    except OSError:
        return None
