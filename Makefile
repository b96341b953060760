# The two commands of a bare checkout are `make demo` and `make test`; both need only python3 (3.11+) and make.
# They use the PostgreSQL named by DATABASE_URL, else one from a wheel, which is stopped again by whoever started it.

PYTHON ?= python3
PY := .venv/bin/python
INSTALLED := .venv/.installed
INSTALLED_313 := .venv313/.installed
DEMO := .venv-demo/bin/python
INSTALLED_DEMO := .venv-demo/.installed
# Twice quiet: errors only.
PIP := -m pip --disable-pip-version-check -qq install
# Runs a program with DATABASE_URL set, and stops the server afterwards if it had to be started.
WITH_POSTGRES := $(PY) -m project.postgres run
# What imports the settings but asks no database must not start one.
WITHOUT_POSTGRES := DATABASE_URL=postgresql://nobody@127.0.0.1/none

# Tests of workers mostly wait, so two files run at a time, each process with a database of its own. A file stays whole.
SIDE_BY_SIDE := -n 2 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help venv test lint types contracts security format messages demo pins test-install bench test-browser test-tutorial reference screenshots test-faults test-conformance mutate soak test-smoke-313 clean

help:  ## Show these lines
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

venv: $(INSTALLED)  ## Create .venv and install requirements.txt, again only when that file has changed

$(INSTALLED): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jobqueue needs Python 3.11 or newer: make PYTHON=/path/to/python3 venv")'
	$(PYTHON) -m venv .venv
	$(PY) $(PIP) -r requirements.txt
	@touch $@

# pytest comes last, so that its closing line is the last one.
test: lint types contracts security test-smoke-313  ## Run everything: lint, types, contracts, security, smoke tests on Python 3.13, all tests
	@$(WITH_POSTGRES) $(PY) -m pytest -m "(not faults or short) and not bench and not walk and not conformance" $(SIDE_BY_SIDE) $(PYTEST_ARGS)

lint: venv  ## Check style
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

format: venv  ## Apply style
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

messages: venv  ## Renew the catalogues of jobqueue/locale from the sources, and say what is to be translated
	@$(WITHOUT_POSTGRES) $(PY) -m tests.catalogues

types: venv  ## Check types
	@$(WITHOUT_POSTGRES) .venv/bin/mypy

security: venv  ## Look for unsafe code, and, where an advisory service answers, for weaknesses of the pinned packages
	@.venv/bin/bandit -q --ini setup.cfg 2>/dev/null  # where it warns of each exception
	@$(PY) -m tests.adoption.audit

contracts: venv  ## Check that imports point down, floor by floor
	@$(WITHOUT_POSTGRES) .venv/bin/lint-imports --no-logo

demo: $(INSTALLED_DEMO)  ## Run the example project on real documents until stopped, or for DEMO_SECONDS
	@$(DEMO) -m project.postgres run $(DEMO) -m project.demo

# Only files whose hashes are written down, see SECURITY.md.
$(INSTALLED_DEMO): requirements/demo.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jobqueue needs Python 3.11 or newer: make PYTHON=/path/to/python3 demo")'
	$(PYTHON) -m venv .venv-demo
	$(DEMO) $(PIP) --require-hashes -r requirements/demo.txt
	@touch $@

pins: venv  ## Renew requirements/demo.txt from requirements.txt
	$(PYTHON) -m venv .venv-pins
	.venv-pins/bin/python $(PIP) pip-tools==7.6.2
	@$(PY) -m tests.adoption.pinning .venv-pins/bin/pip-compile
	@rm -rf .venv-pins

# An environment for each of four projects is made, so it is no part of `make test`.
test-install: venv  ## Build wheel and sdist, and add them to new projects: old, new and lowest versions (5 minutes)
	@PYTHON_313="$(PYTHON_313)" $(WITH_POSTGRES) $(PY) -m tests.adoption

bench: venv  ## Measure, and compare with the bars; other runs by BENCH="check speed", "--peers all"
	@$(WITH_POSTGRES) $(PY) -m benchmarks $(or $(BENCH),check engine)

test-browser: venv  ## Walk every page of the console in a real Chromium, in every theme and size (10 minutes)
	@$(WITH_POSTGRES) $(PY) -m pytest tests/browser -m browser $(PYTEST_ARGS)

test-tutorial: venv  ## Follow quickstart and tutorial with an environment of their own, into which the package is installed
	@WALK_INSTALLS=1 $(WITH_POSTGRES) $(PY) -m pytest tests/docs/test_walks.py $(PYTEST_ARGS)

reference: venv  ## Write the pages of reference that are made from the code: docs/api.md, docs/sql.md (5 minutes)
	@rm -f .plans && JOBQUEUE_KEEP_PLANS=$(CURDIR)/.plans $(WITH_POSTGRES) $(PY) -m pytest -q tests/plans tests/docs/test_reference.py $(PYTEST_ARGS); status=$$?; rm -f .plans; exit $$status

screenshots: venv  ## Take the pictures of docs/images anew
	@SCREENSHOTS=docs/images $(WITH_POSTGRES) $(PY) -m pytest tests/browser/test_walk.py -m walk -k "accessible and light" $(PYTEST_ARGS)

# A scenario may take minutes, so a hanging one is given longer than a test of `make test`.
test-faults: venv  ## Run the fault suite (45 minutes), and write what it measured to docs/faults.md
	@JOBQUEUE_KEEP_MEASURED=1 $(WITH_POSTGRES) $(PY) -m pytest -m faults -o faulthandler_timeout=900 $(PYTEST_ARGS); \
	status=$$?; $(PY) -m tests.faults.report; exit $$status

test-conformance: venv  ## The kit with real workers, and the suites of Django and django-tasks-db (5 minutes)
	@$(WITH_POSTGRES) $(PY) -m pytest tests/conformance -m conformance $(PYTEST_ARGS)
	@PYTHON_313="$(PYTHON_313)" $(WITH_POSTGRES) $(PY) -m tests.conformance.suites

mutate: venv  ## Take each guard out of its statement, and show which test notices (10 minutes); some by ONLY=claim_jobs
	@$(PY) -m tests.mutate $(if $(ONLY),--only $(ONLY))

soak: venv  ## Twenty minutes of random faults under load, or SOAK_SECONDS; again by SOAK_SEED
	@$(WITH_POSTGRES) $(PY) -m tests.soak

# A pyenv shim of that name may exist without a Python behind it, so each candidate has to answer.
PYTHON_313 = $(shell for python in python3.13 "$$(pyenv prefix 3.13 2>/dev/null)/bin/python3.13"; do \
	"$$python" -c '' >/dev/null 2>&1 && { echo "$$python"; break; }; done)

test-smoke-313: venv  ## Run the smoke tests on Python 3.13 with the newest Django 6
	@if [ -n "$(PYTHON_313)" ]; then $(MAKE) --no-print-directory smoke-313; \
	elif [ "$(CI)" = true ]; then echo "Python 3.13 is missing, and CI must not leave its tests out" >&2; exit 1; \
	else echo "NOTE: the smoke tests on Python 3.13 were left out: no python3.13 on PATH and none known to pyenv"; fi

.PHONY: smoke-313
smoke-313: $(INSTALLED_313)
	@$(WITH_POSTGRES) .venv313/bin/python -m pytest -m smoke

$(INSTALLED_313): requirements.txt
	$(PYTHON_313) -m venv .venv313
	@sed -e '/^# Lint/,$$d' -e '/^Django==/d' -e '/^django-tasks==/d' requirements.txt > .venv313/requirements.txt
	.venv313/bin/python $(PIP) --upgrade -r .venv313/requirements.txt 'Django>=6,<7'
	@touch $@

clean:  ## Stop the server, and delete its data, the environments and what tools left
	@for python in $(PY) $(DEMO); do if [ -x $$python ]; then $$python -m project.postgres remove; break; fi; done
	rm -rf .venv .venv313 .venv-demo .venv-pins .bench .conformance .postgres .demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build *.egg-info
