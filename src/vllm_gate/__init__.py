"""vllm-gate: proves that a vLLM release is alive and right before users see it."""

__version__ = "1.0.0.dev0"
