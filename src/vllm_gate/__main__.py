"""`python -m vllm_gate` is the `vllm-gate` command."""

from vllm_gate.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
