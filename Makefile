PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench spec docs install system

demo: install ## the product on its embedded defaults, no key needed
	@$(BIN)/retinue demo

test: install system ## everything
	$(BIN)/python -m pytest -n 3
	$(BIN)/python tests/check_spec.py

check: install ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: install
	$(BIN)/python bench/run.py

spec: install ## docs/spec.md, and whether every done requirement has a passing test
	$(BIN)/python tests/check_spec.py --run

docs: install ## the pages that are generated
	$(BIN)/python docs/generate.py

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and sys.exit("Retinue needs Python 3.11 or later; try: make PYTHON=python3.12")'
	@# Debian's python3 makes no environment with pip unless python3-venv is installed; its own pip then puts one in.
	$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(VENV)
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m pip --python $(BIN)/python install -q pip
	$(BIN)/python -m pip install -q -U pip
	$(BIN)/python -m pip install -q -e '.[mcp,bridge,serve,fast,telemetry]' --group dev
	@touch $@

system: ## what the tests need of the system, where we may install it
	@tests/system.sh
