"""Tests against a real vLLM on this machine's CPU. Not part of `make test`: see `make e2e`."""
