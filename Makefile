# Two commands for a fresh machine: `make demo` and `make test`. Everything they need goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

PYTEST := $(BIN)/python -m pytest -q -n auto --dist worksteal

.PHONY: demo test test-all rest lint soak bench conformance agents docs pins dist clean

demo: $(READY)
	@$(BIN)/vade demo

# Six minutes on two cores: lint, types, every test once, with few examples.
test: lint
	$(PYTEST) --tier=test

# What continuous integration runs: `make test`, and then all that takes longer.
test-all: test rest

rest: $(READY)
	$(PYTEST) --tier=full

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Hours: every kill point, every interleaving, millions of texts. They have the disk; the tests above have memory.
soak: $(READY)
	TMPDIR=$${TMPDIR:-/tmp} $(PYTEST) --tier=soak

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

# Wheel and sdist of both distributions, in dist/.
dist: $(READY)
	$(BIN)/python -m hatchling build -d dist
	cd src/vademecum_hub && $(CURDIR)/$(BIN)/python -m hatchling build -d $(CURDIR)/dist

clean:
	rm -rf $(VENV) dist site

$(READY): requirements.txt pyproject.toml src/vademecum_hub/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable . --editable src/vademecum_hub
	@touch $(READY)
