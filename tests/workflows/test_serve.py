"""The serve action hands its inputs to Docker as they are, whatever is in them."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def serve(tmp_path: Path, **inputs: str) -> tuple[list[str], str]:
    """The words that `docker run` was given, and the outputs."""
    docker = tmp_path / "docker"
    docker.write_text(
        "#!/bin/bash\n"
        f'[ "$1" = run ] && printf "%s\\0" "$@" > {tmp_path}/words\n'
        '[ "$1" = run ] && [ -n "$DOCKER_FAILS" ] && exit 125\n'
        "exit 0\n"
    )
    docker.chmod(0o755)
    (tmp_path / "output").touch()
    given = {"IMAGE": "vllm/vllm-openai:v0.25.1", "MODEL": "m", "TENSOR_PARALLEL_SIZE": "4", "PORT": "8000"}
    environ = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HOME": "/root",
        "GITHUB_RUN_ID": "42",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "CACHE": "",
        "ARGUMENTS": "",
    }
    subprocess.run([ROOT / "serve" / "run"], env=environ | given | inputs, check=True, cwd=tmp_path)
    return (tmp_path / "words").read_text().split("\0")[:-1], (tmp_path / "output").read_text()


def test_a_container_on_the_loopback_address(tmp_path: Path) -> None:
    words, outputs = serve(tmp_path)
    assert words[words.index("--publish") + 1] == "127.0.0.1:8000:8000"
    assert words[-5:] == ["vllm/vllm-openai:v0.25.1", "serve", "m", "--tensor-parallel-size", "4"]
    assert outputs.splitlines() == [
        "container=vllm-gate-42-1-8000",
        "base-url=http://127.0.0.1:8000/v1",
        "log=docker:vllm-gate-42-1-8000",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--enforce-eager  --max-model-len 4096", ["--enforce-eager", "--max-model-len", "4096"]),
        ("""--hf-overrides '{"a": "b c"}'""", ["--hf-overrides", '{"a": "b c"}']),
        ("$(touch bad) `touch bad` ; touch bad", ["$(touch", "bad)", "`touch", "bad`", ";", "touch", "bad"]),
        ("   ", []),
        ("*", ["*"]),
    ],
)
def test_arguments_are_words_and_nothing_is_executed(tmp_path: Path, arguments: str, words: list[str]) -> None:
    given, _ = serve(tmp_path, ARGUMENTS=arguments)
    assert given[given.index("--tensor-parallel-size") + 2 :] == words
    assert not (tmp_path / "bad").exists()


def test_a_quote_that_is_not_closed_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        serve(tmp_path, ARGUMENTS='--hf-overrides \'{"a": 1}')
    assert refused.value.returncode == 2
    assert not (tmp_path / "words").exists()


def test_a_container_that_could_not_start_is_named_all_the_same(tmp_path: Path) -> None:
    """Docker leaves it behind, and whoever cleans up needs its name."""
    with pytest.raises(subprocess.CalledProcessError):
        serve(tmp_path, DOCKER_FAILS="yes")
    assert "container=vllm-gate-42-1-8000" in (tmp_path / "output").read_text()
