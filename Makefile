# Every target makes its own .venv: a machine with python3 (3.11 or newer, with venv) is enough.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.PHONY: help demo test lint unit verify bench mutants docs pictures release wheelhouse audit clean

help:  ## What can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

.venv/installed: pyproject.toml constraints.txt  # what a user has, and its loops compiled
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tripheno needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	$(BIN)/python -m tripheno.study.warm_up
	@touch $@

.venv/ready: .venv/installed  # and what a developer has
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/installed  ## Three hospitals find the phenotypes that pooled data would show
	$(BIN)/tripheno demo --out tripheno-demo --force

test: .venv/ready lint unit  ## Every check: style, types, layers, tests

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/ready  # two files at a time, journeys first: xdist's own order ends with its longest files
	$(BIN)/python -m pytest -m 'not verify' -n $(WORKERS) --dist loadfile --no-loadscope-reorder

verify: .venv/ready  ## The whole grids, too slow for every run
	$(BIN)/python -m pytest -m verify

bench: .venv/ready  ## Whole commands, kernels and fits, as ratios measured in one run
	$(BIN)/python -m benchmarks.run $(if $(DATA),--data $(DATA))

mutants: .venv/ready  ## How many small faults the tests notice, and which they do not (half an hour)
	$(BIN)/python -m tools.mutants

release: .venv/ready  ## Wheel and source archive, built twice and tried in fresh environments; no network
	$(BIN)/python -m tools.sbom
	$(BIN)/python -m tools.metadata
	$(BIN)/python -m tools.release

wheelhouse: .venv/ready  ## The dependencies by hash, for every Python at hand (needs the network)
	$(BIN)/python -m tools.wheelhouse

audit: .venv/ready  ## Known weaknesses of the pinned versions (needs the network)
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	.venv/audit/bin/pip-audit --requirement constraints-hashed.txt --require-hashes --disable-pip

docs: .venv/ready  ## The documentation site, warnings as errors: docs/_build/html/index.html
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --builder html docs docs/_build/html

pictures: demo  ## Every page at desktop and phone width, and the README's picture (needs chromium)
	$(BIN)/python -m benchmarks.pictures tripheno-demo

clean:  ## Remove what the targets made
	rm -rf .venv tripheno-demo dist wheelhouse .mutants docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
