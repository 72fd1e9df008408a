# Everything runs in a virtual environment of its own; a fresh machine needs only Python 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: test check unit slow test-agents demo bench fuzz format clean launcher

test: check unit

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

check: $(READY)
	$(BIN)/ruff format --check src tests bench
	$(BIN)/ruff check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

# Built once beside its sources, as a wheel has it: otherwise every test builds it into a home of its own.
launcher: $(READY)
	$(BIN)/python -m byleave.sandbox.native.build

# The tests start the command hundreds of times: without compiled modules each start takes twice as long.
unit slow test-agents bench: export PYTHONDONTWRITEBYTECODE :=

unit: launcher
	$(BIN)/python -m pytest -n 2

# What takes too long for every change: all exit codes, a fork bomb without a limit, ten thousand calls, lines of a gigabyte;
# and everything else with all that there is to try, and every command a process that is started anew.
ALONE := tests/sandbox tests/toolhost/test_soak.py tests/toolhost/test_hostile.py
slow: launcher
	BYLEAVE_SLOW_TESTS=1 $(BIN)/python -m pytest -o timeout=3600 $(ALONE)
	BYLEAVE_SLOW_TESTS=1 $(BIN)/python -m pytest -o timeout=3600 -n 2 $(ALONE:%=--ignore=%)

# Real agents from the npm registry, driven by a scripted model on loopback. They are kept in BYLEAVE_AGENTS_DIR.
test-agents: launcher
	BYLEAVE_AGENT_TESTS=1 $(BIN)/python -m pytest -o timeout=900 -n 0 -rs tests/agents tests/gateway/test_real_servers.py

demo: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh demo.sh

bench: launcher
	$(BIN)/python bench/run.py

# The reader of commands against bash, dash and zsh themselves, with new seeds each time: make fuzz FUZZ_SECONDS=600
FUZZ_SECONDS ?= 60
fuzz: $(READY)
	PYTHONPATH=tests $(BIN)/python -m shell.fuzz $(FUZZ_SECONDS)

format: $(READY)
	$(BIN)/ruff format src tests bench
	$(BIN)/ruff check --fix src tests bench

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
