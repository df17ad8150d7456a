"""Running the command line as a user does, in this process."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from vllm_gate.cli import main
from vllm_gate.simulator.server import Simulator
from vllm_gate.simulator.settings import SimulatorSettings


@dataclass(frozen=True)
class Ran:
    """Exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


def vllm_gate(*arguments: str | Path, cwd: Path) -> Ran:
    """Run one command in `cwd`."""
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(cwd)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    finally:
        os.chdir(before)
    return Ran(code, out.getvalue(), err.getvalue())


SETTINGS = """\
{
  "gate_config": {
    "gate_1_model_load": {"timeout_sec": 10},
    "gate_3_golden_prompt": {"repeats": 1, "concurrency": [1, 8]}
  },
  "rollback_conditions": ["gate_3_deterministic_probe_failed"]
}
"""


def write_config(
    folder: Path,
    base_url: str,
    *,
    settings: str = SETTINGS,
    more: Mapping[str, str] | None = None,
    timeout_s: float = 20,
) -> None:
    """Both files, for a release at `base_url`."""
    (folder / "settings.json").write_text(settings)
    lines = [f'base_url = "{base_url}"', f'model = "{SimulatorSettings().model}"', f"timeout_sec = {timeout_s}"]
    lines += [f'{key} = "{value}"' for key, value in (more or {}).items()]
    (folder / "config.toml").write_text("[service.under_test]\n" + "\n".join(lines) + "\n")


@contextmanager
def release(folder: Path, *faults: str, **settings: object) -> Iterator[Simulator]:
    """A simulated release with the two files that describe it in `folder`."""
    log = folder / "vllm.log"
    with Simulator(SimulatorSettings(faults=faults, log_path=str(log), **settings)) as server:  # type: ignore[arg-type]
        # Only a server that never answers has to be waited for; on a busy machine a healthy one may be slow.
        write_config(folder, server.base_url, more={"log": "vllm.log"}, timeout_s=1 if "hang" in faults else 20)
        yield server
