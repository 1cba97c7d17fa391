# SPDX-License-Identifier: Apache-2.0
# Every target works in a fresh clone: it makes its prerequisites first.

SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := requirements/dev.txt
RUNTIME_LOCK := requirements/runtime.txt
BUILD_LOCK := requirements/build.txt
SUPPLY_LOCK := requirements/supply-chain.txt

# The interpreter that creates .venv: python3 if it is new enough, else a versioned one.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
	| while IFS='|' read -r target text; do printf '  %-14s %s\n' "$$target" "$$text"; done

.PHONY: venv
venv: $(STAMP) ## create .venv with the locked development dependencies

$(VENV)/bin/python: $(STAMP)

# Progress bars, on a terminal only.
QUIET := $(shell test -t 2 || echo --quiet)

# uv takes a third of pip's time; pip is the fallback where only pip's package index is configured.
$(STAMP): $(LOCK) pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: needs Python 3.11 or later as python3 (or run make PYTHON=/path/to/python)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	|| { echo "make: $(PYTHON) cannot make virtual environments; install its venv package: apt-get install python3-venv" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@sed -n '/^uv==/,/[^\\]$$/p' $(LOCK) >$(VENV)/uv.txt
	@echo "installing uv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	@echo "installing the packages of $(LOCK)"
	@$(BIN)/uv pip install $(QUIET) --system-certs --compile-bytecode --python $(BIN)/python --require-hashes -r $(LOCK) \
	|| $(BIN)/python -m pip install $(QUIET) --disable-pip-version-check --require-hashes -r $(LOCK)
	@echo "installing nri-scope"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# ------------------------------------------------------------------ the product
.PHONY: demo
demo: $(STAMP) ## show a recording of a real containerd
	$(BIN)/nri-scope demo

# ------------------------------------------------------------------------ tests
# One worker more than cores, as tests wait for processes a quarter of their time; TEST_WORKERS=0 runs
# the tests one after the other.
TEST_WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
# Few examples of each law, the same ones each time; NRI_SCOPE_EXAMPLES= tries as many as `make test-all`.
.PHONY: test
test: export NRI_SCOPE_EXAMPLES ?= few
test: $(STAMP) ## the tests that a change needs
	$(BIN)/pytest -n $(TEST_WORKERS) --dist worksteal $(PYTEST_ARGS)

ALL_TESTS = -m "not runtime and not kubernetes and not plugins"
.PHONY: test-all
test-all: $(STAMP) ## all tests that need no root, also against the Go reference if Go is installed
	$(BIN)/pytest -n $(TEST_WORKERS) --dist worksteal $(ALL_TESTS) $(PYTEST_ARGS)

# Tests that depend most on the version of Python; .ci/run runs them on each version. Rooms above the
# core and most tests of commands are excluded, and so are slow tests of limits, hostile files, other
# users' files and old events, which are marked.
CORE_TESTS = -m "not runtime and not interop and not beyond_core" tests/wire tests/nri tests/oci tests/specs tests/transport tests/plugin tests/filter tests/recording tests/recorder \
	tests/cli/test_smoke.py
.PHONY: test-core
test-core: $(BIN)/python ## tests of protocol, plugin and recorder, and of each command once
	$(BIN)/pytest -n $(TEST_WORKERS) --dist worksteal $(PYTEST_ARGS) $(CORE_TESTS)

.PHONY: coverage
coverage: $(STAMP) ## line and branch coverage of all tests, including their subprocesses
	$(BIN)/pytest -n $(TEST_WORKERS) --dist worksteal $(ALL_TESTS) --cov --cov-report=term:skip-covered --cov-report=html $(PYTEST_ARGS)

.PHONY: containerd
containerd: $(STAMP) ## build the newest containerd for test-runtime in a cache folder, if Go is installed
	@command -v go >/dev/null && $(BIN)/python -m tests.kubernetes.programs containerd || echo "no Go: tests of validators are skipped"

# Tests mostly wait for containerd. Each worker has its own.
RUNTIME_WORKERS ?= 3
.PHONY: test-runtime
test-runtime: containerd ## tests against a real containerd (as root)
	$(BIN)/pytest -n $(RUNTIME_WORKERS) --dist worksteal -m runtime tests/runtime $(PYTEST_ARGS)

.PHONY: docker
docker: $(STAMP) ## build dockerd for test-docker in a cache folder (needs Go, as root)
	$(BIN)/python -m tests.docker.programs

# Builds dockerd in a cache folder at first, which takes 6 minutes on two cores.
.PHONY: test-docker
test-docker: docker ## tests against a real Docker Engine (as root, needs Go)
	$(BIN)/pytest -n 0 -m runtime tests/docker $(PYTEST_ARGS)

# Builds Kubernetes in a cache folder at first, which takes 12 minutes on two cores.
.PHONY: test-kubernetes
test-kubernetes: image ## tests on a real Kubernetes: manifests, and the DaemonSet (as root, needs Go)
	$(BIN)/pytest -n 0 -m kubernetes tests/kubernetes $(PYTEST_ARGS)

# Builds other people's plugins in a cache folder at first, which takes 3 minutes on two cores.
.PHONY: test-plugins
test-plugins: containerd ## tests with other people's plugins on a real containerd (as root, needs Go)
	$(BIN)/python -m tests.plugins
	$(BIN)/pytest -n 0 -m plugins tests/plugins $(PYTEST_ARGS)

FUZZ_SECONDS ?= 300
FUZZ_ARGS ?=
FUZZ_TARGETS = $(notdir $(basename $(wildcard tests/fuzz/fuzz_*.py)))
.PHONY: fuzz
fuzz: $(STAMP) ## run every fuzz target in turn, FUZZ_SECONDS=300 in total
	@# libFuzzer ends the process without Python's clean-up, so temporary files are removed here.
	@set -e; targets=($(FUZZ_TARGETS)); folder=$$(mktemp -d $$(test -d /dev/shm && echo -p /dev/shm)); \
	trap 'rm -rf "$$folder"' EXIT; export TMPDIR=$$folder; \
	for target in "$${targets[@]}"; do \
		echo "fuzzing: $$target"; \
		$(BIN)/python -m tests.fuzz.$$target -max_total_time=$$(( $(FUZZ_SECONDS) / $${#targets[@]} )) -verbosity=0 -print_final_stats=1 $(FUZZ_ARGS); \
	done

.PHONY: bench
bench: $(STAMP) ## benchmarks, with the Go reference in the same run; BENCH_ARGS=--short for a quick run
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

# ------------------------------------------------------------------------- lint
# Independent checks run in parallel, with their output grouped; all run even if one fails.
CODE = nri_scope tests scripts benchmarks examples
LINTS := lint-ruff lint-mypy lint-pyright lint-imports lint-lock lint-generated lint-docs lint-words lint-docstrings lint-size lint-promises
export PYRIGHT_PYTHON_CACHE_DIR := $(CURDIR)/$(VENV)/pyright
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: lint
lint: $(STAMP) ## check style, types, imports, words, and that generated files are up to date
	@$(MAKE) --no-print-directory --keep-going --output-sync=target -j2 $(LINTS) \
	&& echo "lint: clean" || { echo "lint: failed" >&2; exit 1; }

.PHONY: $(LINTS)
# The slowest first, to shorten the total time.
$(LINTS): $(STAMP)
lint-pyright:
	@echo "== pyright"; $(BIN)/pyright
lint-mypy:
	@echo "== mypy"; $(BIN)/mypy $(CODE)
lint-ruff:
	@echo "== ruff"; $(BIN)/ruff check --quiet --output-format concise . && $(BIN)/ruff format --check --quiet .
# Without its cache, which resolves imports wrongly after a package was added. No module imports a
# module of tests: helper modules contain what tests share.
lint-imports:
	@echo "== import-linter"; $(BIN)/lint-imports --no-logo --no-cache && ! grep -rnE '^\s*(from|import) .*\btest_' --include='*.py' $(CODE)
# The lock names no index or folder, and the environment satisfies all requirements.
lint-lock:
	@echo "== lock"; ! grep -nE '://|--(extra-)?index|--find-links' $(LOCK) $(RUNTIME_LOCK) $(BUILD_LOCK) $(SUPPLY_LOCK) && $(BIN)/uv pip check --quiet --python $(BIN)/python
lint-generated:
	@echo "== generated code"; $(BIN)/python -m scripts.generate --check
lint-words:
	@echo "== words"; $(BIN)/python -m scripts.check_words
lint-docstrings:
	@echo "== docstrings"; $(BIN)/python -m scripts.check_docstrings
lint-size:
	@echo "== size"; $(BIN)/python -m scripts.check_size
# Each promise of SECURITY.md names existing tests.
lint-promises:
	@echo "== promises"; $(BIN)/pytest -q --no-header -n 0 tests/docs/test_security.py >/dev/null || $(BIN)/pytest -q -n 0 tests/docs/test_security.py
lint-docs:
	@echo "== generated docs"; $(BIN)/python -m scripts.gen_docs --check

.PHONY: format
format: $(STAMP) ## format the code, and apply ruff's fixes
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

# -------------------------------------------------------------------- generated
.PHONY: generate
generate: $(STAMP) ## generate nri_scope/_gen from proto/
	$(BIN)/python -m scripts.generate

.PHONY: docs
docs: $(STAMP) ## generate pages of docs/ from commands, schema and key bindings, and share/ from commands
	$(BIN)/python -m scripts.gen_docs

.PHONY: dist
dist: $(STAMP) ## build the source distribution, the wheel and their checksums in dist
	rm -rf dist
	$(BIN)/python -m hatchling build --directory dist
	cd dist && sha256sum *.tar.gz *.whl | tee SHA256SUMS

IMAGE := build/nri-scope-image.tar
.PHONY: image
image: $(STAMP) ## build the container image as an OCI archive, without a registry or a daemon
	$(BIN)/python -m scripts.make_image $(IMAGE)

.PHONY: site
site: $(STAMP) ## build the documentation site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The lock contains versions and hashes only; the package index is configured on each machine.
.PHONY: lock
lock: $(STAMP) ## lock the newest development dependencies
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --upgrade \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --quiet \
		--custom-compile-command "make lock" --output-file $(LOCK)
	@# What the image contains, a part of it. Only a command that nri-scope does not use needs pip.
	$(BIN)/uv pip compile pyproject.toml --constraint $(LOCK) --no-emit-package pip --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
		--no-annotate --quiet --custom-compile-command "make lock" --output-file $(RUNTIME_LOCK)
	@# What builds nri-scope for the image and for the action.
	$(BIN)/uv pip compile --group pyproject.toml:build --constraint $(LOCK) --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
		--no-annotate --quiet --custom-compile-command "make lock" --output-file $(BUILD_LOCK)

	@# What describes and checks dependencies; none of it is installed beside nri-scope.
	$(BIN)/uv pip compile --group pyproject.toml:supply-chain --universal --upgrade \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
		--no-annotate --quiet --custom-compile-command "make lock" --output-file $(SUPPLY_LOCK)

# Programs that describe and check dependencies, in an environment of their own.
SUPPLY := build/supply-chain
$(SUPPLY)/.installed: $(STAMP) $(SUPPLY_LOCK)
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(SUPPLY)
	@$(BIN)/uv pip install --quiet --python $(SUPPLY) --require-hashes -r $(SUPPLY_LOCK)
	@touch $@

.PHONY: sbom
sbom: dist image $(SUPPLY)/.installed ## write an SBOM of the wheel, the image and the chart to dist
	$(SUPPLY)/bin/python -m scripts.make_sboms dist/*.whl $(IMAGE) dist

# A licence that is not in this list fails: `make image` puts all packages into one file.
LICENCES = Apache-2.0;Apache-2.0 AND BSD-2-Clause;Apache License, Version 2.0;Apache Software License;$\
	BSD License;3-Clause BSD License;BSD-2-Clause;BSD-3-Clause;MIT;MIT License;PSF-2.0;Public Domain
.PHONY: licences
licences: $(SUPPLY)/.installed ## list the licences of what nri-scope installs; fail for others than known ones
	$(SUPPLY)/bin/pip-licenses --python=$(BIN)/python --from=mixed --allow-only="$(LICENCES)" \
		--packages $$(sed -n 's/==.*//p' $(RUNTIME_LOCK))

.PHONY: audit
audit: $(SUPPLY)/.installed ## look up known vulnerabilities of what nri-scope installs (needs the internet)
	$(SUPPLY)/bin/pip-audit --strict --require-hashes --disable-pip -r $(RUNTIME_LOCK)

.PHONY: clean
clean: ## remove .venv, caches and build products
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
