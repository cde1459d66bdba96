# Two commands for a fresh machine: `make demo` and `make test`. Everything they need goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test check lint types unit soak bench conformance agents docs pins clean

demo: $(READY)
	@$(BIN)/vade demo

test: lint types unit

# After every change: lint, types and the tests that need no process of their own, with few examples.
check: lint types $(READY)
	HYPOTHESIS_PROFILE=check $(BIN)/python -m pytest -n auto -q -m fast

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not soak"

# The long runs have the disk; the tests above have memory, where there is room.
soak: $(READY)
	TMPDIR=$${TMPDIR:-/tmp} $(BIN)/python -m pytest -n auto --dist worksteal -m soak

bench: $(READY)
	$(BIN)/python -m bench

# The protocol's own test suite over `vade mcp`, and its Inspector over every tool (needs npm).
conformance: $(READY)
	tools/conformance.sh

# The real agents, from npm, with memory in them, against a scripted model on loopback (needs npm; see docs/agents.md).
agents: $(READY)
	$(BIN)/python -m pytest -n0 -v -rs -o python_files='with_*.py' tests/real_agents

# The documentation as a site, in site/: open site/index.html, or `python -m http.server -d site`, which the search box needs.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs --quiet build --strict --clean

# Renew the pinned, hashed requirements from pyproject.toml (needs uv).
pins:
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --upgrade --output-file requirements.txt

clean:
	rm -rf $(VENV) site

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .
	@touch $(READY)
