"""What a simulated server is: its model, its parallelism, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorSettings:
    """One simulated vLLM. `faults` are texts of `faults.FAULTS`, each a name or `name:value`.

    `log_path` is where the startup log is written ("" for memory alone), `port` 0 takes a free one.
    """

    model: str = "nvidia/Qwen3.6-27B-NVFP4"
    version: str = "0.25.1"
    tp: int = 4
    quantization: str = "modelopt_fp4"
    faults: tuple[str, ...] = ()
    seed: int = 0
    """Of the weights: two servers with one seed serve one model."""
    host: str = "127.0.0.1"
    port: int = 0
    api_key: str = ""
    log_path: str = ""
    max_model_len: int = 32_768
    max_logprobs: int = 20
    prompt_logprobs: bool = True
    """Whether `prompt_logprobs` is known; a server that does not know it drops the field without a word."""
    count_nans: bool = False
    """VLLM_COMPUTE_NANS_IN_LOGITS: whether `vllm:corrupted_requests_total` exists."""
    dev_mode: bool = False
    """VLLM_SERVER_DEV_MODE: whether `/server_info` exists."""
    gateway: bool = False
    """Only the OpenAI paths, no token ids, no logprobs: a gateway in front of somebody's server."""
