# Sets itself up: all it needs is Python 3.10 or newer, and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

# Tests run on two workers; a BLAS with threads of its own would only get in their way.
BLAS   := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

# Tests start hundreds of Python processes: each would compile the library's sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install programs run test lint types pytest format bench bench-jax numbers docs test-aarch64 release-check clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1|\2/' | awk -F'|' '{printf "  make %-14s %s\n", $$1, $$2}'

# Each set of extras has its stamp, so that `make run` installs only what it needs.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Without bytecode: Python compiles and keeps what it imports, a small part of what torch, jax and sympy ship.
$(VENV)/stamp-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[$*]"
	@touch $@

install: $(VENV)/stamp-test $(VENV)/stamp-bridges ## set up everything for development

# Tests of the viewer drive a browser, those of exported C two compilers. Where one is missing they are skipped; on a build
# machine they fail.
programs: ## install Chromium, GCC and Clang, where root may and apt-get can
	@missing=""; for name in chromium gcc clang; do command -v $$name >/dev/null || missing="$$missing $$name"; done; \
	[ -z "$$missing" ] || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "install$$missing: needs root and apt-get here"; exit 1; }; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing libc6-dev >/dev/null; \
	}

run: $(VENV)/stamp-cli ## run the demo and the box experiment on the built-in humanoid
	$(BIN)/kinetree demo
	$(BIN)/kinetree box

# Style and types are checked while the libraries that only tests need are installed.
test: $(VENV)/stamp-test ## run every check
	$(MAKE) --no-print-directory --jobs=2 lint types $(VENV)/stamp-bridges
	$(MAKE) --no-print-directory pytest

lint: $(VENV)/stamp-test ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/stamp-test ## check types
	$(BIN)/mypy

# What tests machine code runs optimised. It shows that unoptimised code, which takes LLVM a third of the time, has the same
# bits, on joints and nodes of every kind, so that the rest needs no other.
OPTIMISED := $(addprefix tests/,parity unit/compiler unit/kernels unit/runtime)
PYTEST    := $(BIN)/pytest -n $(JOBS) --dist worksteal

pytest: $(VENV)/stamp-test $(VENV)/stamp-bridges ## run the tests: units, layers, README code, laws, engines, oracles, bridges
	$(BLAS) $(PYTEST) $(OPTIMISED); optimised=$$?; \
	$(BLAS) KINETREE_NO_OPTIMIZATION=1 $(PYTEST) $(addprefix --ignore=,$(OPTIMISED)) && exit $$optimised

format: $(VENV)/stamp-test ## format, and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# crocoddyl needs an older Pinocchio than the other benchmarks.
$(VENV)-crocoddyl/bin/python:
	$(PYTHON) -m venv $(VENV)-crocoddyl
	$@ -m pip install --quiet --disable-pip-version-check crocoddyl==3.2.1 pin==4.0.0

bench: $(VENV)/stamp-bench $(VENV)-crocoddyl/bin/python ## print the benchmark tables; BENCH=--update also writes them into docs/performance*.md
	$(BLAS) $(BIN)/python -m benchmarks.foundation $(BENCH)
	$(BLAS) $(BIN)/python -m benchmarks.operational_space $(BENCH)
	$(BLAS) $(BIN)/python -m benchmarks.singular_tasks $(BENCH)
	$(BLAS) $(BIN)/python -m benchmarks.functions $(BENCH)
	$(BLAS) $(BIN)/python -m benchmarks.functions.fresh $(BENCH)
	$(BLAS) $(BIN)/python -m benchmarks.functions.first_calls $(BENCH)
	$(BLAS) $(BIN)/python -m benchmarks.optimal_control --peer $(VENV)-crocoddyl/bin/python

bench-jax: $(VENV)/stamp-bench $(VENV)/stamp-bridges ## half an hour: against adam, frax and MJX, each in an environment of its own; PEERS="--only call"
	$(BLAS) $(BIN)/python -m benchmarks.jax_peers $(PEERS)

numbers: $(VENV)/stamp-test ## bring operation counts and the README's table and picture up to date
	$(BIN)/python -m benchmarks.numbers

docs: $(VENV)/stamp-docs ## build the documentation site in site/, without network access
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d site/.doctrees docs site

test-aarch64: $(VENV)/stamp-test ## hours: run parity and law tests on an emulated ARM, and compare bits; AARCH64="--stages bits" only these
	$(BLAS) $(BIN)/python -m tools.aarch64 $(AARCH64)

release-check: $(VENV)/stamp-release ## build what a release uploads, install it in empty environments, run the README there
	$(BIN)/python -m tools.release_check $(RELEASE)

clean: ## remove the environment and all caches
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
