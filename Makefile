# Everything runs in a virtual environment of the checkout; a first call makes it, later ones reuse it.
#   make demo                      a first look, on a generated trace
#   make test bench lint build     for developers
#   PYTHON=... VENV=...            another interpreter, another environment

VENV ?= .venv
PYTHON ?= $(shell for python in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
RUN := $(VENV)/bin/python

.PHONY: demo test bench lint build

demo: $(VENV)/.installed
	$(RUN) examples/demo.py

test: $(VENV)/.installed-dev
	$(RUN) -m pytest -n auto --maxprocesses 2 --dist worksteal

bench: $(VENV)/.installed-dev
	$(RUN) benchmarks/run.py $(BENCH)

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports

build: $(VENV)/.installed-dev
	rm -rf dist
	$(RUN) -m build --no-isolation
	$(RUN) -m pytest tests/test_packaging.py --wheel dist/*.whl

$(VENV)/.installed-dev: EXTRAS := [dev]
$(VENV)/.installed $(VENV)/.installed-dev: pyproject.toml
	@test -n "$(PYTHON)" || { echo 'no Python >= 3.11 with venv found; name one: make PYTHON=/path/to/python' >&2; exit 1; }
	@test -x $(VENV)/bin/pip || "$(PYTHON)" -m venv $(VENV)
	$(RUN) -m pip install -qq --disable-pip-version-check -e '.$(EXTRAS)'
	@touch $(VENV)/.installed $@
