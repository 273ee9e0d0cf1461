# Everything a checkout needs: `make demo` and `make test` set themselves up on a machine that has
# python3 (3.11 or newer, with venv) and make. `make help` lists the rest.

VENV   := .venv
ifeq ($(OS),Windows_NT)  # the recipes are for a POSIX shell; Git for Windows has one
SHELL  := bash
PYTHON ?= python
BIN    := $(VENV)/Scripts
EXE    := .exe
else
PYTHON ?= python3
BIN    := $(VENV)/bin
endif
# Each test process would compile every module that it imports, and each program that it starts too.
export PYTHONDONTWRITEBYTECODE :=
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Debian packages that the tests need beyond Python; installed only as root and only when missing.
# The headless shell needs a third of the CPU time of chromium, which the tests use without it.
APT_PACKAGES := chromium chromium-headless-shell fonts-dejavu-core postgresql librdkafka1 nats-server redis-server

# Both sets share one environment and are installed in place: neither replaces the other.
DEMO_EXTRAS := cli
DEV_EXTRAS  := cli,ag-ui,http2,mcp,postgres,schema
DEMO_STAMP  := $(VENV)/.installed-demo
DEV_STAMP   := $(VENV)/.installed-dev
LOCK        := requirements-dev.lock

# Many tests wait for processes and servers, so six processes keep two cores busy; each takes half a
# gigabyte. tests/conftest.py spreads the files that wait over the run. A file's tests stay together
# and in order, so that what they share is made once. TEST_PROCESSES=0 runs them in one.
TEST_PROCESSES ?= 6
PYTEST_XDIST := --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
PYTEST_ARGS ?=
ifdef COV
PYTEST_COV := --cov=arcp_client --cov-report=term --cov-fail-under=90
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-short test-loops test-agents mutants npm lint format types contracts docs bench bench-parts bench-compare build release-check lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

demo: $(DEMO_STAMP) ## install, then three jobs over a connection that is cut twice
	$(BIN)/arcp-client demo

test: $(DEV_STAMP) npm ## install, then the whole test suite (COV=1 also measures coverage)
	$(BIN)/python -m pytest $(PYTEST_XDIST) $(PYTEST_COV) $(PYTEST_ARGS)

test-all: $(DEV_STAMP) ## unit, property and contract tests on each Python, loop and the lowest versions
	$(BIN)/python -m scripts.matrix all --processes $(TEST_PROCESSES)

test-loops: $(DEV_STAMP) ## those and the faults on the plain loop, on uvloop and with eager tasks
	$(BIN)/python -m scripts.matrix loops --processes $(TEST_PROCESSES)

test-short: $(DEV_STAMP) ## the marked part of them on uvloop, with eager tasks, and on the lowest versions
	$(BIN)/python -m scripts.matrix short --processes $(TEST_PROCESSES)

# Agents of the official npm SDK of ACP, with ws for its server, and the client of AG-UI, are peers in
# the tests; without npm those tests skip and say so.
NPM_SDK   := @agentclientprotocol/sdk@2.4.0 @ag-ui/client@1.0.0 ws@8.23.0
NPM_STAMP := build/npm/.installed-2.4.0-1.0.0-8.23.0
NPM_OPTIONS := --silent --no-audit --no-fund --no-save --fetch-retries=1 --fetch-timeout=30000
# A registry that does not answer is no reason to wait: the tests that need it say so.
BOUNDED := $(shell command -v timeout >/dev/null && echo timeout 90)

npm: ## the npm packages of the Agent Client Protocol and of AG-UI into build/npm, if npm is there
	@if [ ! -e $(NPM_STAMP) ] && command -v npm >/dev/null; then \
	    echo 'installing $(NPM_SDK) into build/npm'; mkdir -p build/npm; \
	    $(BOUNDED) npm install --prefix build/npm $(NPM_OPTIONS) $(NPM_SDK) zod@^4 \
	        && touch $(NPM_STAMP) \
	        || echo 'not installed: the tests that need it will say so' >&2; \
	fi

AGENTS       := @agentclientprotocol/claude-agent-acp@0.49.0 opencode-ai@1.18.33
AGENTS_STAMP := build/agents/.installed

$(AGENTS_STAMP):
	mkdir -p build/agents
	npm install --prefix build/agents $(NPM_OPTIONS) $(AGENTS)
	@touch $@

MODULES ?= arcp_client/_protocol arcp_client/_link arcp_client/_dispatch arcp_client/_rx
SAMPLE  ?= 10
SEED    ?= 1
MUTANTS_ARGS ?=

mutants: $(DEV_STAMP) ## change SAMPLE lines of each of MODULES and report what no test notices
	$(BIN)/python scripts/mutants.py $(MODULES) --sample $(SAMPLE) --seed $(SEED) $(MUTANTS_ARGS)

test-agents: $(DEV_STAMP) $(AGENTS_STAMP) ## the tests against real ACP agents (needs npm; 650 MB)
	ARCP_TEST_AGENTS=1 $(BIN)/python -m pytest -m agents tests/interop/acp

lint: $(DEV_STAMP) ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(DEV_STAMP) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix-only --exit-zero .
	$(BIN)/ruff format .

types: $(DEV_STAMP) ## mypy --strict on the package, mypy and basedpyright on tests/typing
	$(BIN)/mypy
	@if ls tests/typing/*.py >/dev/null 2>&1; then \
	    set -ex; \
	    $(BIN)/mypy tests/typing; \
	    $(BIN)/basedpyright; \
	fi

contracts: $(DEV_STAMP) ## the directions of imports, and the declared dependencies
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry .

docs: $(DEV_STAMP) ## the site, into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -q -E -b html docs docs/_build/html

# A peer of bench_operator.py. It asks for an old reactivex, so it stands apart, without dependencies.
BENCH_PEERS := aioreactive==0.20.0 Expression==5.8.0
BENCH_STAMP := build/bench/.installed-0.20.0

$(BENCH_STAMP): | $(DEV_STAMP)
	@$(INSTALL) --no-deps --upgrade --target build/bench $(BENCH_PEERS) && touch $@ \
	    || echo 'no aioreactive: the benchmark of the operators goes without' >&2

BENCH_ARGS ?=

bench: $(DEV_STAMP) ## one table of ours and others, into benchmarks/results.json and the page on performance
	$(BIN)/python benchmarks/bench.py $(BENCH_ARGS)
	$(BIN)/python scripts/generate_performance_page.py

bench-parts: $(DEV_STAMP) $(BENCH_STAMP) ## the benchmarks of single parts: operator, ACP, leases, dashboard, runtime, sync
	@for part in operator acp leases dashboard runtime sync; do \
	    echo "== $$part"; $(BIN)/python benchmarks/bench_$$part.py || exit 1; \
	done

REF ?= HEAD
COMPARE_ARGS ?=

bench-compare: $(DEV_STAMP) ## this tree against REF, in pairs (COMPARE_ARGS=--instructions counts those)
	$(BIN)/python benchmarks/compare.py $(REF) $(COMPARE_ARGS)

build: $(DEV_STAMP) ## sdist and wheel, into dist/ (RELEASE_TAG=v1.2.3 checks their version)
	rm -rf dist
	$(BIN)/python -m build
	@[ -z "$$RELEASE_TAG" ] || [ -e "dist/arcp_client-$${RELEASE_TAG#v}-py3-none-any.whl" ] || \
	    { echo "the tag is $$RELEASE_TAG, and arcp_client/version.py says otherwise" >&2; exit 1; }

release-check: build ## build, then check files, metadata, description and installations on each Python
	$(BIN)/python -m scripts.release_check

# Every version that developing needs, for all platforms and Pythons. Versions stay unless UPGRADE=1.
lock: $(DEV_STAMP) ## write requirements-dev.lock anew (UPGRADE=1 takes the newest versions)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev \
	    --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade) \
	    --output-file $(LOCK) pyproject.toml

clean: ## everything that make made
	rm -rf $(VENV) build dist docs/_build .coverage coverage.xml htmlcov
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find arcp_client tests examples docs benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# ---------------------------------------------------------------- installation

$(BIN)/pip$(EXE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "arcp-client needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
	           "Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	    { echo "$(PYTHON) has no venv; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(DEMO_STAMP): pyproject.toml | $(BIN)/pip$(EXE)
	@echo 'installing arcp-client[$(DEMO_EXTRAS)] into $(VENV)'
	@$(INSTALL) -e '.[$(DEMO_EXTRAS)]'
	@touch $@

$(DEV_STAMP): pyproject.toml $(LOCK) | $(BIN)/pip$(EXE)
	@missing=""; \
	for package in $(APT_PACKAGES); do \
	    dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; \
	done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    set -ex; apt-get update -q; \
	    known=$$(for package in $$missing; do \
	        if apt-cache show $$package >/dev/null 2>&1; then echo $$package; \
        else echo "apt does not know $$package (the tests that need it will say so)" >&2; fi; done); \
	    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$known; \
	elif [ -n "$$missing" ]; then \
	    echo "not installed, and not root: $$missing (the tests that need them will say so)" >&2; \
	fi
	@echo 'installing arcp-client[$(DEV_EXTRAS)] into $(VENV)'
	@$(INSTALL) --upgrade 'pip>=25.1'
	@$(INSTALL) -e '.[$(DEV_EXTRAS)]' --group dev --constraint $(LOCK)
	@touch $@ $(DEMO_STAMP)
