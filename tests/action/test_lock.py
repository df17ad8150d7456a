"""requirements.lock, from which the image and the variant without Docker are installed, with `--no-deps`."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
LOCKED = [
    (Requirement(entry.partition(" \\\n")[0]), entry.count("--hash=sha256:"))
    for entry in re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().strip())
]


def test_every_dependency_is_locked_to_a_version_that_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = {canonicalize_name(locked.name): str(locked.specifier).removeprefix("==") for locked, _ in LOCKED}
    for dependency in map(Requirement, project["dependencies"]):
        assert dependency.specifier.contains(versions[canonicalize_name(dependency.name)]), dependency


def test_every_package_is_pinned_and_hashed() -> None:
    assert len(LOCKED) > 10
    for locked, hashes in LOCKED:
        assert re.fullmatch(r"==[\w.]+", str(locked.specifier)), locked
        assert hashes, locked


def test_what_the_toolkit_brings_and_nobody_imports_is_left_out() -> None:
    """Each of them is a weight in the image, and one more to trust."""
    assert {canonicalize_name(locked.name) for locked, _ in LOCKED}.isdisjoint({"pygithub", "cryptography", "cffi"})
