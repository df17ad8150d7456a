"""The example of each format is read whole, and the documentation says rightly which of them hold answers."""

from pathlib import Path

import pytest

from vllm_gate.traffic.reading import FORMATS, read_traffic
from vllm_gate.traffic.request import Tally

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples/traffic"


@pytest.mark.parametrize(
    ("name", "format_name", "requests", "conversations", "recorded"),
    [
        ("openai-batch", "OpenAI Batch", 4, 3, 4),
        ("litellm", "LiteLLM", 4, 3, 4),
        ("otel-spans", "OpenTelemetry", 4, 3, 4),
        ("sharegpt", "ShareGPT", 3, 2, 0),
        ("vllm-bench", "vLLM bench", 2, 1, 0),
    ],
)
def test_an_example(name: str, format_name: str, requests: int, conversations: int, recorded: int) -> None:
    tally = Tally()
    path = EXAMPLES / f"{name}.jsonl"
    with path.open("rb") as lines:
        found = list(read_traffic(lines, str(path), tally))
    assert (len(found), tally.bad, sum(one.recorded is not None for one in found)) == (requests, 0, recorded)
    assert len({one.session for one in found}) == conversations
    told = next(row for row in _documented() if format_name in row)
    assert told.rstrip(" |").endswith("no") is (recorded == 0)


def test_every_format_has_one() -> None:
    assert len(list(EXAMPLES.glob("*.jsonl"))) == len(FORMATS)


def _documented() -> list[str]:
    text = (REPOSITORY / "docs/shadow-canary.md").read_text()
    return text.partition("## Traffic")[2].partition("## Live")[0].splitlines()
