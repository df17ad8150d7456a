"""The example's two files, and a way to break them."""

from pathlib import Path

from vllm_gate.config.document import Source
from vllm_gate.config.load import Sources, examine
from vllm_gate.config.plan import Plan

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "config"
SETTINGS = (EXAMPLE / "settings.json").read_text()
CONFIG = (EXAMPLE / "config.toml").read_text()
CONDITIONS = (
    "gate_3_deterministic_probe_failed",
    "gate_2_logit_drift_exceeded",
    "gate_5_task_success_dropped",
    "unexplained_kernel_fallback_detected",
    "dtype_path_changed_without_approval",
)


def examined(
    settings: str = SETTINGS,
    config: str = CONFIG,
    *,
    names: tuple[str, str] = ("settings.json", "config.toml"),
    environ: dict[str, str] | None = None,
    suite: str | None = None,
) -> tuple[Plan | None, list[str], list[str]]:
    """(plan, errors, warnings) of two texts, under the names `settings.json` and `config.toml` unless given."""
    sources = Sources(
        settings=Source(names[0], settings),
        config=Source(names[1], config),
        suite=None if suite is None else Source("golden.yaml", suite),
    )
    plan, diagnostics = examine(sources, environ or {}, CONDITIONS)
    errors = [str(diagnostic) for diagnostic in diagnostics if not diagnostic.warning]
    return plan, errors, [str(diagnostic) for diagnostic in diagnostics if diagnostic.warning]
