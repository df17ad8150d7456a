"""`/metrics` in Prometheus' text format, with vLLM's names."""

from __future__ import annotations

import threading
from collections import Counter


class Counters:
    """What the server has counted. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1, label: str = "") -> None:
        """Count `amount` under `name`; `label` is written into the braces."""
        with self._lock:
            self._values[f"{name}|{label}"] += amount

    def text(self, model: str, gauges: dict[str, float]) -> str:
        """Everything, as the endpoint answers it."""
        labels = f'engine="0",model_name="{model}"'
        with self._lock:
            counted = dict(self._values)
        lines = []
        for key, value in sorted(counted.items()):
            name, _, label = key.partition("|")
            total = f"{name}_total"
            lines += [f"# TYPE {total} counter", f"{total}{{{labels}{',' if label else ''}{label}}} {float(value)}"]
        for name, reading in sorted(gauges.items()):
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# TYPE {name} {kind}", f"{name}{{{labels}}} {reading}"]
        return "\n".join(lines) + "\n"
