# `make demo` shows the main job, `make test` runs every check. Both set themselves up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DEMO := $(VENV)/.demo

.PHONY: demo test test-slow test-live check format clean

$(DEMO): pyproject.toml scripts/setup.sh
	PYTHON="$(PYTHON)" VENV="$(VENV)" WHAT=demo sh scripts/setup.sh
	touch $(DEMO)

$(STAMP): pyproject.toml scripts/setup.sh
	PYTHON="$(PYTHON)" VENV="$(VENV)" WHAT=test sh scripts/setup.sh
	touch $(STAMP) $(DEMO)

demo: $(DEMO)
	PATH="$(abspath $(BIN)):$$PATH" sh scripts/demo.sh

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 --group torch
	$(BIN)/python -m pytest -m slow --timeout 3600

# Asks the real services whose keys are in the environment; costs a few tenths of a cent.
test-live: $(STAMP)
	$(BIN)/python -m pytest -m live tests/live

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
