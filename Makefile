# SPDX-License-Identifier: Apache-2.0
# Every target works as the only command in a fresh clone: what it needs is made first.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := requirements/dev.txt

# The interpreter that makes .venv: python3 where it is new enough, else a named one.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null \
	&& { echo $$p; break; }; done)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
	| while IFS='|' read -r target text; do printf '  %-14s %s\n' "$$target" "$$text"; done

.PHONY: venv
venv: $(STAMP) ## make .venv with the locked development dependencies

$(STAMP): $(LOCK) pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: needs Python 3.11, 3.12 or 3.13 as python3 (or say which: make PYTHON=/path/to/python)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	|| { echo "make: $(PYTHON) cannot make virtual environments; install its venv package: apt-get install python3-venv" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The lock holds versions and hashes only; where packages come from is the machine's own affair.
.PHONY: lock
lock: $(STAMP) ## choose the newest development dependencies anew
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --upgrade \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --quiet \
		--custom-compile-command "make lock" --output-file $(LOCK)

.PHONY: clean
clean: ## remove .venv, caches and build products
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
