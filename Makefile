PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint e2e act image prism mirror bench mutants lock clean

demo: $(READY)  ## a healthy server and a faulty one, judged side by side
	$(BIN)/vllm-gate demo

test: $(READY) lint  ## lint, types and every fast test
	$(BIN)/pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

e2e: $(READY)  ## a real vLLM on this CPU, healthy and with the original fault
	tests/e2e/run

act: $(READY)  ## the example workflows, by a local runner
	tests/act/run

image: $(READY)  ## builds the image without Docker and runs it as the runner would (as root, on Debian)
	tests/image/run

prism: $(READY)  ## every request to GitHub and every answer of its stand-in, judged by Prism (needs npm)
	tests/prism/run

mirror: $(READY)  ## copies of requests from a real nginx
	tests/mirror/run

bench: $(READY)  ## the figures that README and docs claim
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	bench/run

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

mutants: $(READY)  ## break the judgement on purpose, and see that the tests notice
	$(BIN)/python tests/mutation/run.py

# What actions-toolkit brings along for modules of its own that are not imported here is left out.
UNUSED := pygithub pynacl pyjwt cryptography cffi pycparser

lock: $(READY)  ## renew requirements.lock, from which the image and the variant without Docker are installed
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --no-config --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-annotate $(UNUSED:%=--no-emit-package %) --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .lab build dist
