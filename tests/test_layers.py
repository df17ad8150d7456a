"""Imports run downwards only: the table of the architecture, enforced."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "vllm_gate"

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "core": set(),
    "config": {"core", "errors"},
    "judge": {"core", "errors"},
    "path": {"core", "errors"},
    "advisories": {"core", "errors", "path"},
    "rollback": {"core", "errors"},
    "report": {"core", "errors"},
    "server": {"core", "errors"},
    "traffic": {"core", "errors"},
    "github": {"core", "errors"},
    "gates": {"core", "errors", "config", "judge", "server", "path", "advisories", "traffic"},
    "simulator": {"core"},
}
FRONT = {"app", "commands", "cli", "action", "__main__"}
PURE = ("core", "config", "judge", "path", "advisories", "rollback", "report")
IMPURE_MODULES = {
    "os",
    "socket",
    "time",
    "random",
    "subprocess",
    "requests",
    "http",
    "urllib3",
    "threading",
    "tempfile",
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def layer_of(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


def imports_of(module: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import; write the full name"
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def own_layers(module: Path) -> set[str]:
    inside = {name.split(".")[1] for name in imports_of(module) if name.startswith("vllm_gate.")}
    return {layer for layer in inside if (PACKAGE / layer).is_dir() or (PACKAGE / f"{layer}.py").exists()}


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_downwards(module: Path) -> None:
    layer = layer_of(module)
    if layer in FRONT or layer == "__init__":
        return
    assert layer in MAY_IMPORT, f"{layer} has no row in the import table"
    assert own_layers(module) <= MAY_IMPORT[layer] | {layer}


@pytest.mark.parametrize("module", [m for m in modules() if layer_of(m) in PURE], ids=lambda path: path.name)
def test_judgement_touches_no_file_socket_clock_or_environment(module: Path) -> None:
    roots = {name.split(".")[0] for name in imports_of(module)}
    assert not roots & IMPURE_MODULES
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "open" not in calls


def test_the_rule_sees_an_upward_import(tmp_path: Path) -> None:
    upward = tmp_path / "bad.py"
    upward.write_text("from vllm_gate.gates import interface\n")
    assert own_layers(upward) == {"gates"}
    assert not own_layers(upward) <= MAY_IMPORT["judge"]
