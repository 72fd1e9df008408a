# Everything runs in a virtual environment of its own; a fresh machine needs only Python 3.11 (or later), git, make and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SITE := .venv-docs
PYTEST := $(BIN)/python -m pytest
# Tests of one directory may take as long as those of all others: a worker that has none left takes some of another's.
SPREAD := --dist worksteal -n
CODE := src tests bench tools demo
TEXTS := docs src tools bench README.md CONTRIBUTING.md RELEASING.md SECURITY.md CHANGELOG.md mkdocs.yml

# Packages whose tests `make unit` runs; tests marked `long` are left to `make integration`. tests/conftest.py has the same list.
UNIT := tests/core tests/shell tests/protocol tests/translate tests/policy tests/test_text.py
# The two halves of `make coverage`.
COVERED := coverage-values coverage-texts
# What `make soak` runs: each of the five tests takes SOAK_SECONDS, and what it needs to come to rest and to read its records.
SOAKS := tests/toolhost/test_soak.py tests/service/test_service_size.py::test_many_calls_leave_nothing_behind \
	tests/gateway/test_gateway_soak.py tests/acp/test_acp_soak.py
# Suites that want the machine for themselves.
ALONE := tests/sandbox tests/toolhost/test_soak.py tests/toolhost/test_hostile.py

.DEFAULT_GOAL := test
.PHONY: help test every-test check lint types unit integration sandbox slow soak test-agents coverage $(COVERED) mutants architecture reference docs screenshots demo demo-agent bench fuzz format lock launcher wheels reproducible installed clean

# The tests start the command hundreds of times: without compiled modules each start takes twice as long.
test every-test unit integration sandbox slow soak test-agents coverage $(COVERED) bench: export PYTHONDONTWRITEBYTECODE :=

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name line; do printf '  %-14s %s\n' "$$name" "$$line"; done

# The type checker uses one processor for as long as the tests take to be collected: they start beside it.
test: lint launcher ## all that a change must pass: format, lint, types, imports, every test but the slow ones
	@$(MAKE) --no-print-directory -j2 types every-test

# More than half of the time tests wait for other processes: four workers keep two processors busy. What failed in an
# earlier run, and may have another name now, is forgotten.
every-test:
	$(PYTEST) --cache-clear $(SPREAD) 4 || { [ $$? -eq 1 ] && $(BIN)/python tools/repeat_failed.py; }

check: lint types ## format, lint, types, the direction of imports, and spelling

lint: $(READY)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/lint-imports
	$(BIN)/codespell $(TEXTS)

types: $(READY)
	$(BIN)/mypy

unit: $(READY) ## tests of core, shell, protocol, translate and policy, in less than 30 seconds
	$(PYTEST) $(SPREAD) 2 -m unit --hypothesis-profile=quick $(UNIT)

integration: launcher ## tests of everything else but the sandbox, and the long ones of the packages in `unit`
	$(PYTEST) $(SPREAD) 2 -m integration

sandbox: launcher ## tests that start sandboxes
	$(PYTEST) $(SPREAD) 2 -m sandbox tests/sandbox

# All exit codes, a fork bomb without a limit, ten thousand calls, lines of a gigabyte; and every other test with all its
# examples, and with every command a process that is started anew.
slow: launcher ## every test with all its examples, and those that take too long for every change: an hour
	BYLEAVE_SLOW_TESTS=1 $(PYTEST) -o timeout=3600 $(ALONE)
	BYLEAVE_SLOW_TESTS=1 $(PYTEST) -o timeout=3600 $(SPREAD) 2 $(ALONE:%=--ignore=%)

SOAK_SECONDS ?= 220
soak: launcher ## processes that stay, with many calls: does anything grow? 20 minutes, or five times SOAK_SECONDS
	BYLEAVE_SLOW_TESTS=1 BYLEAVE_SOAK_SECONDS=$(SOAK_SECONDS) $(PYTEST) -o timeout=$$(($(SOAK_SECONDS) + 900)) -n 0 -rP $(SOAKS)

# The agents are kept in BYLEAVE_AGENTS_DIR.
test-agents: launcher ## real agents from the npm registry, driven by a scripted model on loopback
	BYLEAVE_AGENT_TESTS=1 $(PYTEST) -o timeout=900 -n 0 -rs tests/agents tests/gateway/test_real_servers.py tests/gateway/test_real_issuer.py

# What every test of these packages reaches, the long ones too; the examples are the same each time. Two processes at once, because one would
# take twice as long. docs/testing.md has the figures; a gap that tests/coverage_gaps.toml does not list is an error.
coverage: $(READY) ## branch coverage of core, policy, protocol, shell and translate: every gap is listed
	$(BIN)/coverage erase
	@$(MAKE) --no-print-directory -j2 $(COVERED)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage json --quiet -o coverage.json
	$(BIN)/coverage report --show-missing --skip-covered > coverage.txt
	$(BIN)/python tools/coverage_gaps.py

coverage-values: TESTS := tests/core tests/translate tests/test_cases.py
coverage-texts: TESTS := tests/shell tests/protocol tests/policy tests/test_text.py
$(COVERED): $(READY)
	CI=1 $(BIN)/coverage run -m pytest -n 0 -p no:cacheprovider --hypothesis-profile=quick $(TESTS)

# PACKAGE: core or policy. MODULE: some of its files, all without it. SAMPLE: as many mutants, picked by SEED; all without it.
PACKAGE ?= core
mutants: $(READY) ## change code in small ways, report what no test notices: PACKAGE=core MODULE=core/decide.py SAMPLE=200
	$(BIN)/python tools/mutants.py $(PACKAGE) $(MODULE:%=--module %) $(SAMPLE:%=--sample %) $(SEED:%=--seed %)

architecture: $(READY) ## draw the diagrams of docs/architecture.md from the code
	$(BIN)/python tools/architecture.py

reference: $(READY) ## write docs/reference from the code
	$(BIN)/python tools/reference.py

# In an environment of its own, from the lock file, and without network. --strict: a link or an anchor that leads nowhere is an error.
docs: $(SITE)/.ready ## build the site of docs/ into build/site, and check every link
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --quiet
	@! grep -rlE '<(link|script|img)[^>]* (href|src)="?https?:' build/site --include='*.html' || { echo 'a page loads something from elsewhere' >&2; exit 1; }

screenshots: $(READY) ## take the pictures of README.md and docs: the dashboard in chromium, an agent in a terminal
	$(BIN)/python tools/terminal_picture.py
	$(BIN)/python tools/screenshots.py

# `make demo FULL=1` walks through everything.
demo: launcher ## one story in a scratch project, in less than 90 seconds; FULL=1: everything
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh demo/$(if $(FULL),walk,story).sh

demo-agent: launcher ## the same with a real agent from the npm registry, driven by a scripted model on loopback
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH=tests $(BIN)/python demo/real_agent.py

bench: launcher ## measure start-up, decisions, the sandbox and the integrations
	$(BIN)/python bench/run.py

# TARGET: shells (the reader against bash, dash and zsh), command, jsonrpc, http, configuration, action, launcher, front, all.
FUZZ_SECONDS ?= 60
TARGET ?= shells
fuzz: $(READY) ## fuzz a reader with new seeds: make fuzz TARGET=http FUZZ_SECONDS=600
	PYTHONPATH=tests $(BIN)/python -m $(if $(filter shells,$(TARGET)),shell.fuzz,fuzzing $(TARGET)) $(FUZZ_SECONDS)

format: $(READY) ## format, and fix what the linter can fix
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

lock: $(READY) ## take the newest versions of what development needs into the lock files
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--extra dev --extra jwt --extra otel --extra postgres --output-file requirements-dev.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--extra docs --output-file requirements-docs.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--constraint requirements-dev.lock --extra jwt --extra otel --extra postgres --output-file deploy/requirements.lock pyproject.toml
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--constraint requirements-dev.lock --output-file deploy/build.lock -

# Beside its sources, as a wheel has it: otherwise every test builds it into a home of its own.
launcher: $(READY) ## build the launcher of the sandbox
	$(BIN)/python -m byleave.sandbox.native.build

# The day of the last commit is the day of the files, so that the same commit gives the same bytes.
wheels: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1580601600)
wheels: $(READY) ## build the source package, and wheels for x86_64 and arm64, into dist/
	rm -rf dist
	$(BIN)/python -m hatchling build -t sdist
	BYLEAVE_WHEEL_MACHINE=x86_64 $(BIN)/python -m hatchling build -t wheel
	BYLEAVE_WHEEL_MACHINE=aarch64 $(BIN)/python -m hatchling build -t wheel

reproducible: $(READY) ## build everything twice, in two directories, and compare the bytes
	$(BIN)/python tools/reproducible.py

PYTHONS ?= python3.11 python3.12 python3.13
installed: $(READY) ## install the wheel of dist/ as a user would, with each Python, with pipx and with uv, and try it
	$(BIN)/python tools/installed.py dist $(PYTHONS)

clean: ## remove the virtual environment and everything that was built
	rm -rf $(VENV) $(SITE) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* coverage.txt coverage.json dist build

# The lock file names exact versions with their hashes; the package itself is linked, not copied.
$(READY): pyproject.toml requirements-dev.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)

$(SITE)/.ready: requirements-docs.lock
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-docs.lock
	touch $@
