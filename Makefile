# What a newcomer types. Every target sets up first what it needs.

PYTHON ?= python3
VENV := .venv/bin
# The longest files come first and the shortest last, so that the workers end together.
SUITES := $(wildcard tests/faults tests/browser tests/spark tests/stack tests/unit)
TEST_WORKERS ?= 2
PYTEST_AT_ONCE := $(VENV)/pytest --numprocesses $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder
CODE := $(wildcard ilyama_protocol ilyama_resources ilyama_assets sensors ilyama_service deploy tests benchmarks)

.DEFAULT_GOAL := help
.PHONY: help run setup setup-tests test test-unit test-spark test-stack test-browser faults bench bench-full lint format lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup ## Start the whole platform with a simulated fleet; Ctrl-C stops it
	@$(VENV)/ilyama up --simulate

setup: ## Install Java, the Python packages and the jars; instant when done before
	@$(PYTHON) -m deploy.setup

setup-tests: ## Install also Chromium, for the tests of the user interface
	@$(PYTHON) -m deploy.setup --for-tests

test: setup-tests lint ## Lint, then run all tests
	$(PYTEST_AT_ONCE) $(SUITES)

test-unit: setup ## Run the fast tests
	$(PYTEST_AT_ONCE) tests/unit

test-spark: setup ## Run the tests of the transforms
	$(VENV)/pytest tests/spark

test-stack: setup ## Run the tests against real servers
	$(VENV)/pytest tests/stack

test-browser: setup-tests ## Run the tests of the user interface
	$(VENV)/pytest tests/browser

faults: setup ## Kill processes of a running stack under load, 50 times each way; FAULT_SEED chooses
	FAULT_KILLS=$${FAULT_KILLS:-50} $(VENV)/pytest tests/faults

bench: setup ## Measure the platform against what one would pick instead: ten minutes, one table
	$(VENV)/python -m benchmarks

bench-full: setup ## The same with 32 million rows of history, and plots of how costs grow
	$(VENV)/python -m benchmarks --full

lint: setup ## Check style, types and import directions
	$(VENV)/ruff check $(CODE)
	$(VENV)/ruff format --check $(CODE)
	$(VENV)/mypy
	$(VENV)/lint-imports

format: setup ## Rewrite the code in the house style
	$(VENV)/ruff check --fix $(CODE)
	$(VENV)/ruff format $(CODE)

lock: ## Bring requirements.lock up to pyproject.toml, keeping what fits (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --extra dev \
		--no-header --no-emit-index-url --output-file requirements.lock pyproject.toml

clean: ## Remove what set-up and tests made; the state in var/ stays
	rm -rf .venv .jars build *.egg-info deploy/kit/build deploy/kit/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
