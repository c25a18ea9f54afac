# Every target sets up .venv by itself; nothing has to be installed by hand but Python 3.11 or newer, with venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

RUNS ?= runs
PYTHONS ?= 3.11 3.12 3.13 3.14

.PHONY: demo test verdicts check reference docs evidence audit mutate bench dist releases slides clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

setup: $(STAMP)  ## a local environment with everything but the optional extras

demo: $(STAMP)  ## run the concept system's quick presets and write the report
	$(BIN)/dynascope run 'concept.*' --preset quick
	$(BIN)/dynascope report

check: $(STAMP)  ## lint, format, types, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/python tests/import_directions.py

test: check  ## all checks, and all tests but the long ones
	$(BIN)/python -m pytest -n 4 --dist worksteal -m 'not long'

verdicts: $(STAMP)  ## the long tests: most quick presets and their controls, kills at every write (half an hour)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m long

reference: $(STAMP)  ## write docs/reference.md from the docstrings
	$(BIN)/python docs/make_reference.py

$(VENV)/.installed-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs,torch,lm]'
	touch $@

docs: $(VENV)/.installed-docs  ## the documentation site, in site/, with a gallery of the stored runs in RUNS
	$(BIN)/python docs/make_site.py $(RUNS)

audit: $(STAMP)  ## every claim of the quick presets at ten seeds (half an hour on two cores)
	$(BIN)/dynascope audit --seeds 10 --jobs 2

evidence: $(STAMP)  ## judge the evidence, with what is in runs, by today's claims, and write the numbers on the pages
	$(BIN)/python docs/make_evidence.py $(RUNS)
	$(BIN)/python docs/make_ledger.py

IDS ?=
slides: $(STAMP)  ## slides of the experiments in IDS, from the evidence, in build/slides.html
	$(BIN)/python docs/make_slides.py $(IDS)

mutate: $(STAMP)  ## break the science on purpose: each break must be seen by a claim or a test
	$(BIN)/python tests/mutations/mutate.py

bench: $(STAMP)  ## the races against the tools one would pick instead (installs torch)
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	$(BIN)/python -m benchmarks

dist: $(STAMP)  ## the wheel and the source archive, in dist/
	rm -rf dist
	$(BIN)/python -m hatchling build

releases: dist  ## install both packages with the oldest and the newest dependencies on each of PYTHONS, and use them
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python tests/releases.py $(PYTHONS)

clean:
	rm -rf $(VENV) runs report dist build site
