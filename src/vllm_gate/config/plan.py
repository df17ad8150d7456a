"""The user's two files as typed, complete settings: what a run will do. Every optional key has its default here.

Field names are the keys of the files. `config/load.py` builds a `Plan`; nothing else does outside tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_gate.config.golden import GoldenCase
from vllm_gate.core.finding import Location
from vllm_gate.core.secret import Secret

GATE_1_CHECKS = ("weights_load", "tokenizer_load", "quant_config_parse", "ready_endpoint")
DRIFT_METRICS = ("total_variation", "weighted_logprob", "kl")
RATE_VERDICTS = ("observed", "certified")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """One `[service.NAME]` table of config.toml.

    `name` is `under_test`, `baseline`, `tp.1`, …. A service is reached at `base_url`, or stands for an earlier
    capture at the path `snapshot` (TP variants and baselines that need not be up now).
    """

    name: str
    base_url: str = ""
    model: str = ""
    api_key_env: str = ""
    api_key: Secret | None = None
    """The value of the variable `api_key_env`; None when it is unset or empty."""
    api: str = "openai"
    log: str = ""
    """A path, or `docker:NAME`."""
    snapshot: str = ""
    timeout_sec: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLoadSettings:
    """`gate_1_model_load`."""

    enabled: bool = True
    checks: tuple[str, ...] = GATE_1_CHECKS
    timeout_sec: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericalSettings:
    """`gate_2_numerical`. Tolerances: mean total variation (0 to 1), and |ln PPL ratio| (nats)."""

    enabled: bool = True
    logit_drift_tolerance: float = 0.02
    logit_drift_metric: str = "total_variation"
    perplexity_drift_tolerance: float = 0.05
    check_nan_inf: bool = True
    compare_tp_variants: tuple[int, ...] = ()
    prompts: int = 32
    """Prompts asked first; doubled while inconclusive, up to `max_prompts`."""
    max_prompts: int = 128
    positions: int = 64
    """Generated tokens a prompt."""
    concurrency: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenPromptSettings:
    """`gate_3_golden_prompt`. `suite` is the path of an optional YAML file of further cases."""

    enabled: bool = True
    deterministic_probe: str = "Reply with exactly: OK"
    expected_output: str = "OK"
    max_tokens: int = 16
    temperature: float = 0.0
    pass_rate_threshold: float = 1.0
    suite: str = ""
    repeats: int = 2
    concurrency: tuple[int, ...] = (1, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongContextSettings:
    """`gate_4_long_context`. Lengths are prompt tokens by the server's own tokenizer."""

    enabled: bool = True
    context_lengths: tuple[int, ...] = (4096, 16384, 32768)
    needle_recall_threshold: float = 1.0
    """Smallest share of the facts in a long prompt that must be found where no baseline can be asked."""
    json_parse_rate_threshold: float = 0.99
    tool_call_schema_check: bool = True
    prefix_cache_check: bool = True
    rate_verdict: str = "observed"
    concurrency: int = 2
    max_requests: int = 400
    """Budget of JSON and tool requests; a `certified` verdict that needs more is inconclusive and says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validator:
    """A user's own test of an answer: exactly one of `regex`, `json_schema`, `tool_schema`, `command` is set."""

    name: str
    where: str = ""
    """Regular expression of the last message; "" tests every answer."""
    regex: str = ""
    json_schema: Mapping[str, Any] | None = None
    tool_schema: Mapping[str, Mapping[str, Any]] | None = None
    command: tuple[str, ...] = ()
    timeout_sec: float = 10.0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowCanarySettings:
    """`gate_5_shadow_canary`. `task_success_drop_threshold` is in absolute points (0.03 = 3 points)."""

    enabled: bool = True
    traffic_ratio: float = 0.05
    task_success_drop_threshold: float = 0.03
    degeneration_rate_threshold: float = 0.001
    max_requests: int = 5000
    max_duration_sec: float = 3600.0
    max_total_tokens: int = 0
    max_tokens: int = 1024
    concurrency: int = 8
    max_per_conversation: int = 1
    validators: tuple[Validator, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """`gate_config`. A gate that the file leaves out is not asked."""

    model_load: ModelLoadSettings = ModelLoadSettings()
    numerical: NumericalSettings = NumericalSettings()
    golden_prompt: GoldenPromptSettings = GoldenPromptSettings()
    long_context: LongContextSettings = LongContextSettings()
    shadow_canary: ShadowCanarySettings = ShadowCanarySettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficSettings:
    """`[traffic]` of config.toml: requests of real users, from files (`log`) or from a proxy's mirror (`listen`)."""

    log: tuple[str, ...] = ()
    listen: str = ""
    answers: str = "live"
    """`live`: the baseline is asked; `recorded`: the answers in the log stand for it."""
    salt: str = ""
    keep_text: bool = False
    redact: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackSettings:
    """`[rollback]` of config.toml."""

    auto_rollback: bool = False
    notify_webhook: Secret | None = None
    """The URL itself is a secret: chat webhooks carry their token in it."""
    webhook_format: str = "json"
    webhook_secret: Secret | None = None
    """HMAC key, read from the variable that `webhook_secret_env` names."""
    workflow: str = "rollback.yml"
    ref: str = ""
    """Branch or tag that holds the workflow; empty means the repository's default branch."""
    on_pull_request: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything one run will do.

    `matrix` is `[matrix]` as declared (key to str, int, bool or list). `conditions` is `rollback_conditions`.
    `locations` maps a dotted key of either file (`gate_config.gate_3_golden_prompt.expected_output`,
    `service.baseline.base_url`) to its place; use `where`.
    """

    services: Mapping[str, ServiceConfig]
    gates: Gates = Gates()
    matrix: Mapping[str, object] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    rollback: RollbackSettings = RollbackSettings()
    traffic: TrafficSettings = TrafficSettings()
    golden_cases: tuple[GoldenCase, ...] = ()
    lock: str = ""
    """Text of the approved execution path (`vllm-gate.lock.json`), read by the front door; empty without one."""
    lock_path: str = "vllm-gate.lock.json"
    locations: Mapping[str, Location] = field(default_factory=dict)

    def where(self, key: str) -> Location | None:
        """The place of a dotted key, or of its nearest ancestor that the files hold; None when built without."""
        while key:
            if key in self.locations:
                return self.locations[key]
            key = key.rpartition(".")[0]
        return None
