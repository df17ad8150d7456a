"""Which known faults concern a release, before it is asked anything, and which explain a failure afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from vllm_gate.advisories.known import ADVISORIES, Advisory
from vllm_gate.path.record import ExecutionPath, State

_BACKEND_FIELDS = ("attention_backend", "moe_backend", "allreduce_backends", "linear_kernels")
_BOUND = re.compile(r"(>=|<=|<|>|==)\s*([\d.]+)")


def known_faults(matrix: Mapping[str, object], record: ExecutionPath, model: str) -> tuple[Advisory, ...]:
    """The advisories whose every condition the declared matrix or the record meets. A condition that neither speaks
    of is not met: a warning about everything warns of nothing.
    """
    facts = _Facts(matrix, record, model)
    return tuple(advisory for advisory in ADVISORIES if facts.meet(advisory))


def rank_causes(
    symptoms: Iterable[str], matrix: Mapping[str, object], record: ExecutionPath, model: str
) -> tuple[Advisory, ...]:
    """Known faults that explain the symptoms of a failure: those that concern this release first, then the certain."""
    seen = set(symptoms)
    facts = _Facts(matrix, record, model)
    explaining = [advisory for advisory in ADVISORIES if seen & set(advisory.symptoms)]
    concerned = [advisory for advisory in explaining if facts.meet(advisory)]
    return tuple(sorted(concerned, key=lambda advisory: not advisory.certain))


def in_range(version: str, ranges: Sequence[str]) -> bool:
    """Whether a version lies in any of the ranges (`>=0.23.0,<0.25.1`). Local and pre-release parts are cut off."""
    numbers = _numbers(version)
    return any(all(_holds(numbers, *bound) for bound in _BOUND.findall(span)) for span in ranges)


class _Facts:
    """What is known of one release: observed where the log says it, else declared."""

    def __init__(self, matrix: Mapping[str, object], record: ExecutionPath, model: str) -> None:
        self._matrix = matrix
        self._record = record
        self._model = f"{model} {record['model'].value or ''}"
        """The served name, which may be an alias, and the name or path that the server loaded."""

    def meet(self, advisory: Advisory) -> bool:
        """Whether every condition of the advisory holds."""
        return (
            self._version_fits(advisory)
            and (not advisory.quantization or any(word in self._quantization() for word in advisory.quantization))
            and self._tp() >= advisory.min_tp
            and (not advisory.backends or any(word in self._backends() for word in advisory.backends))
            and (not advisory.models or bool(re.search(advisory.models, self._model)))
            and all(self._shows(need) for need in advisory.needs)
        )

    def _version_fits(self, advisory: Advisory) -> bool:
        version = self._known("runtime_version").removeprefix("vllm-").removeprefix("v")
        return not advisory.affected or (bool(version) and in_range(version, advisory.affected))

    def _quantization(self) -> str:
        return f"{self._known('quantization')} {self._model}".lower()

    def _tp(self) -> int:
        size = self._known("parallelism_tp")
        return int(size) if size.isdigit() else 1

    def _backends(self) -> str:
        return " ".join(self._known(name) for name in _BACKEND_FIELDS)

    def _shows(self, need: str) -> bool:
        name, operator, value = re.split(r"([=~!])", need, maxsplit=1)
        seen = self._record[name]
        if operator == "=" and value == "absent":
            return seen.state is State.ABSENT
        known = self._known(name) or self._declared(name, value)
        if operator == "!":
            return known not in ("", value)
        return known == value if operator == "=" else value in known

    def _declared(self, name: str, value: str) -> str:
        """What [matrix] says in other words: `fusion_allreduce_rms = true` for the fusion `allreduce_rms`."""
        return value if name == "fusions" and self._matrix.get(f"fusion_{value}") is True else ""

    def _known(self, name: str) -> str:
        return self._record[name].value or str(self._matrix.get(name, "") or "")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[+a-z]", version)[0])[:3])


def _holds(numbers: tuple[int, ...], operator: str, bound: str) -> bool:
    limit = _numbers(bound)
    return {
        ">=": numbers >= limit,
        ">": numbers > limit,
        "<": numbers < limit,
        "<=": numbers <= limit,
        "==": numbers == limit,
    }[operator]
