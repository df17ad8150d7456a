"""`python -m vllm_gate` is the `vllm-gate` command."""

from vllm_gate.cli import entry

if __name__ == "__main__":
    entry()
