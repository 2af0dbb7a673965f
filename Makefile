# The only door to this project. `make` lists what there is.
#
# Everything is set up in a virtual environment of its own, .venv; only Python 3.11 or newer must be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# As a path, not as a hook of imports: Spark looks for packages named pyspark_* on the path, and finds `format("hub")` so.
EDITABLE := --config-settings editable_mode=compat

.DEFAULT_GOAL := help
.PHONY: help run test soak check lint types contracts format bench bench-compare image clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk 'BEGIN {FS = ":.*## "} {printf "  make %-12s %s\n", $$1, $$2}'

run: $(VENV)/.run ## set up and start a hub: TCP 7400, WebSocket and page 7401 (ARGS="--peer ...")
	@exec $(BIN)/hub run $(ARGS)

test: $(VENV)/.test ## set up and run the tests (ARGS="-k name")
	@tests/console/install-chromium
	@tests/spark/install-java
	$(BIN)/python -m pytest --numprocesses 4 --dist loadscope $(ARGS)

soak: $(VENV)/.test ## break it for an hour: kills, damage, full disks; the tests do the same in short
	@tests/spark/install-java
	@failed=; for script in tests/soak/*.py; do \
		echo "$$script"; \
		$(BIN)/python $$script || failed="$$failed $$script"; \
	done; \
	if [ -n "$$failed" ]; then echo "soak: failed:$$failed" >&2; exit 1; fi; \
	echo "soak: all is as promised"

check: lint types contracts ## linters, types, import contracts

lint: $(VENV)/.lint
	$(BIN)/ruff format --check hub peers tests examples
	$(BIN)/ruff check hub peers tests examples

types: $(VENV)/.lint
	$(BIN)/mypy

contracts: $(VENV)/.lint
	$(BIN)/lint-imports

format: $(VENV)/.lint ## put the code into its form
	$(BIN)/ruff format hub peers tests examples
	$(BIN)/ruff check --fix hub peers tests examples

bench: $(VENV)/.run ## measure the figures of docs/performance.md
	$(BIN)/hub bench scenario targets $(ARGS)

bench-compare: $(VENV)/.test ## the hub beside nats-server, redis, mosquitto and ZeroMQ, in one run (as root installs them)
	$(BIN)/python tests/benchmarks/compare.py --json build/compare.json --html build/compare.html \
		--markdown build/compare.md --svg build/compare.svg $(ARGS)

image: ## build the container image
	docker build -t topichub .

clean: ## remove what was set up
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "topichub needs Python 3.11 or newer; '$(PYTHON)' is older: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# uvloop is an extra: where no wheel fits and it cannot be built, the hub runs on asyncio's own loop.
$(VENV)/.run: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[fast]' $(EDITABLE) || $(BIN)/python -m pip install --quiet --editable . $(EDITABLE)
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --editable '.[test,spark,delta]' $(EDITABLE)
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --editable '.[lint]' $(EDITABLE)
	@touch $@
