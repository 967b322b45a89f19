# Every target makes .venv itself, with what the project's own files name; the second time it is there already.
# PYTHON may name another interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test slow peers check format bench clean help

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[cpu,export,dev]'
	@touch $@

demo: $(READY) ## export the embedded checkpoint and translate with the bundle
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh demo.sh

test: $(READY) ## all tests that fit into ten minutes
	$(BIN)/python -m pytest -m "not slow and not peers" --numprocesses 2 --dist loadfile tests

slow: $(READY) ## tests that take longer
	$(BIN)/python -m pytest -m slow tests

peers: $(READY) ## tests against other people's checkpoints, fetched by name from the package index
	@$(PIP) --editable '.[bench]'
	$(BIN)/python -m pytest -m peers tests

bench: $(READY) ## measure speed beside PyTorch; results go to benchmarks/results
	$(BIN)/python benchmarks/versus_torch.py

check: $(READY) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## let ruff rewrite the files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the targets made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
