# Two commands on a fresh machine: `make demo` and `make test`. Each installs all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := setup.py pyproject.toml

.PHONY: help demo test check bench default-model clean

help:
	@echo "make demo           the whole loop on a simulated cluster, under 5 minutes"
	@echo "make test           all tests; real Slurm and Prometheus where they can be installed"
	@echo "make check          ruff, mypy, import-linter"
	@echo "make bench          speed and memory"
	@echo "make default-model  train policy_models/default.onnx again"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-train: $(BIN)/python $(SOURCES)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[train]'
	touch $@

$(VENV)/installed-test: $(BIN)/python $(SOURCES)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

demo: $(VENV)/installed-train
	$(BIN)/slurm-rl demo --output demo-output

test: $(VENV)/installed-test
	tests/real/install_daemons.sh
	$(BIN)/pytest

check: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/installed-test
	$(BIN)/python -m tests.benchmarks.simulator_speed --output bench-output
	$(BIN)/slurm-rl benchmark hook --jobs 10000
	$(BIN)/slurm-rl benchmark hook --jobs 100000

# Generated loads only: the model has seen no site's log.
default-model: $(VENV)/installed-train
	$(BIN)/slurm-rl train \
	  mmn:interactive=.2,seed=11 mmn:interactive=.4,seed=12 mmn:interactive=.5,seed=13 \
	  mmn:interactive=.4,load=.9,processors=20,seed=14 \
	  egee:seed=15 egee:load=.7,seed=16 egee:load=.8,burst=40,processors=60,seed=17 \
	  egee:load=.6,interactive=.65,burst=25,processors=120,seed=18 \
	  --estimates oracle --estimates class-median --windows 1 --steps 60 --seed 1 \
	  --output policy_models/default.onnx

clean:
	rm -rf $(VENV) build dist *.egg-info demo-output
