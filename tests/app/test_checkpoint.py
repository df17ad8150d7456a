"""A checkpoint's headers are read from a folder or the hub's cache; its weights never are."""

import json
from pathlib import Path

from vllm_gate.app.checkpoint import read_headers
from vllm_gate.path.checkpoint import read_checkpoint

HEADER = json.dumps({"model.norm.weight": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}).encode()


def write(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    (folder / "model.safetensors").write_bytes(len(HEADER).to_bytes(8, "little") + HEADER + b"\x00" * 1_000_000)
    (folder / "tokenizer.json").write_text("{}")
    return folder


def test_a_folder_gives_its_configuration_and_headers_and_nothing_else(tmp_path: Path) -> None:
    found = read_headers(str(write(tmp_path / "m")), {})
    assert set(found) == {"config.json", "model.safetensors"}
    assert len(found["model.safetensors"]) == 8 + len(HEADER)
    assert read_checkpoint(found).facts == {"dtype_weights": "fp32", "dtype_rmsnorm_weight": "fp32"}


def test_a_name_is_looked_up_in_the_hubs_cache(tmp_path: Path) -> None:
    cache = tmp_path / "hub" / "models--nvidia--Qwen3-8B-FP8"
    write(cache / "snapshots" / "0123abc")
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0123abc")
    for environ in ({"HF_HOME": str(tmp_path)}, {"HF_HUB_CACHE": str(tmp_path / "hub")}):
        assert set(read_headers("nvidia/Qwen3-8B-FP8", environ)) == {"config.json", "model.safetensors"}
    assert read_headers("nvidia/Qwen3-32B-FP8", {"HF_HOME": str(tmp_path)}) == {}


def test_a_model_that_is_elsewhere_gives_nothing(tmp_path: Path) -> None:
    for model in ("", "/models/only-in-the-container", "org/name"):
        assert read_headers(model, {"HOME": str(tmp_path)}) == {}


def test_a_file_that_is_no_safetensors_gives_no_facts(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 4000)
    (tmp_path / "other.safetensors").mkdir()
    found = read_headers(str(tmp_path), {})
    assert {name: len(content) for name, content in found.items()} == {"model.safetensors": 8}
    assert read_checkpoint(found).facts == {}
