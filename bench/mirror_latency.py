"""What users behind a real nginx wait while a twentieth of their requests is copied to a listener in any state.

bench/run mirror_latency   # needs nginx; exit 1 when the median of any state is above 1.25 times that without a mirror

8 users ask 2,000 requests each round over kept-alive connections, state after state, in 5 rounds. `slow` accepts
connections and never answers; `full` drops every copy; `dead` is a port where nobody listens.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import numpy as np
from tests.mirror.nginx import free_port, nginx
from tests.mirror.users import ask, expected, production
from tests.server.loopback import Loopback

from vllm_gate.traffic.mirror import MirrorListener

LIMIT, ROUNDS, REQUESTS = 1.25, 5, 2_000
PERCENTILES = (50, 95, 99)
STATES = ("off", "healthy", "slow", "full", "dead")


@contextmanager
def listener(state: str) -> Iterator[int]:
    """A port, and behind it a listener in a state."""
    if state == "slow":
        with socket.create_server(("127.0.0.1", 0)) as silent:
            yield int(silent.getsockname()[1])
    elif state in ("healthy", "full"):
        with closing(MirrorListener("127.0.0.1:0", most_copies=0 if state == "full" else 2_000)) as mirror:
            requests = mirror.requests()
            next(requests)
            if state == "healthy":
                Thread(target=lambda: [None for _ in requests], daemon=True).start()
            yield int(mirror.port)
    else:
        yield free_port()


def seconds(state: str, folder: Path) -> list[float]:
    """What every user waited in one round. Raises AssertionError when one was not served rightly."""
    with (
        listener(state) as port,
        Loopback(production) as behind,
        nginx(folder, production=behind.port, listener=port, mirror=state != "off") as proxy,
    ):
        ask(proxy.port, 200)
        seen = ask(proxy.port, REQUESTS)
    assert [(one.number, one.status, one.text) for one in seen] == [expected(number) for number in range(REQUESTS)]
    return [one.seconds for one in seen]


def main() -> int:
    """Print percentiles in milliseconds, and their ratios to those without a mirror."""
    waited: dict[str, list[float]] = {state: [] for state in STATES}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            for state in STATES:
                waited[state] += seconds(state, Path(folder) / f"{state}-{number}")
    found = {state: np.percentile(waited[state], PERCENTILES) * 1000 for state in STATES}
    print(f"{'listener':10}" + "".join(f"{f'p{p}':>20}" for p in PERCENTILES) + f"{'longest':>12}")
    for state, values in found.items():
        cells = (f"{ms:8.1f} ms × {ms / off:5.2f}" for ms, off in zip(values, found["off"], strict=True))
        print(f"{state:10}" + "".join(f"{cell:>20}" for cell in cells) + f"{max(waited[state]) * 1000:9.0f} ms")
    return int(max(values[0] / found["off"][0] for values in found.values()) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
