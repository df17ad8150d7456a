"""Break the judgement on purpose, one rule at a time, and see that the tests notice.

    .venv/bin/python tests/mutation/run.py        # or `make mutants`; exit 1 when one survives that is not argued
    .venv/bin/python tests/mutation/run.py path/  # only those in files whose name holds this

Each mutant is made in a copy of the tree; the working tree is not touched.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.mutation.mutants import MUTANTS  # noqa: E402

ARGUED: dict[tuple[str, str], str] = {}
"""Mutants that may survive, with the reason: (file, old text) to why no test can tell."""


def survives(copy: Path, file: str, old: str, new: str, tests: str) -> bool | None:
    """Whether the tests pass although `old` was replaced; None when `old` is not there any more."""
    path = copy / file
    text = path.read_text(encoding="utf-8")
    if text.count(old) < 1:
        return None
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
        environment = {"PYTHONPATH": str(copy / "src"), "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode == 0
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    unexplained = 0
    with tempfile.TemporaryDirectory(prefix="vllm-gate-mutants-") as scratch:
        copy = Path(scratch) / "tree"
        ignored = shutil.ignore_patterns(".venv", ".lab", ".git", ".*_cache", "__pycache__")
        shutil.copytree(ROOT, copy, ignore=ignored)
        wanted = [mutant for mutant in MUTANTS if all(part in mutant[0] for part in sys.argv[1:])]
        for file, old, new, tests in wanted:
            alive = survives(copy, file, old, new, tests)
            state = "GONE" if alive is None else "SURVIVED" if alive else "killed"
            why = ARGUED.get((file, old), "")
            unexplained += alive is not False and not why
            print(f"{state:9} {file.removeprefix('src/vllm_gate/')}: {old!r} -> {new!r} {why}", flush=True)
    print(f"{len(wanted)} mutants, {unexplained} unexplained survivors")
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main())
