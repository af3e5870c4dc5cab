# Everything runs in a virtual environment of the checkout; a first call makes it, later ones reuse it.
#   make demo                      a first look, on a generated trace
#   make quick                     tests for every save: no database, browser or real traces; about a minute
#   make slow                      measure which tests `make quick` leaves out
#   make test                      the tests of figures and behaviour; TESTS=tests/graph some
#   make proof                     the long proofs that `make test` leaves out: depth, damage, fuzz, kill points, the
#                                  database; HYPOTHESIS=many with many more examples
#   make quick-wheel               the quick tests on the wheel, installed into an empty environment
#   make lint build bench          for developers
#   make docs                      docs/ as a site in build/site; a broken link is an error
#   make release TAG=v0.1.0        wheel, sdist and release notes into dist/; see docs/releasing.md
#   make pairs TORCH=python3       record examples/traces/linked anew, in a temporary folder, and check it; TORCH has PyTorch
#   make test-torch                replays of whole models on the CPU against PyTorch, ten minutes; it gets 5 GB of PyTorch
#                                  into .venv-torch, or TORCH=python3 names a Python that has it, expecttest and this package;
#                                  TORCH_OLD=python3 names one with an older PyTorch, which runs programs of the new one, too
#   make test-jax                  programs of single instructions against JAX on the CPU; JAX goes into .venv-jax
#   PYTHON=... VENV=...            another interpreter, another environment

VENV ?= .venv
PYTHON ?= $(shell for python in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
RUN := $(VENV)/bin/python

# Tests of the database all run in one process: see tests/lanes.py.
HYPOTHESIS ?= few
PYTEST := -m pytest -n auto --maxprocesses 4 --dist loadgroup --no-loadscope-reorder --hypothesis-profile $(HYPOTHESIS)
QUICK := not (neo4j or browser or corpus or slow)

# Programs that tests start compile the package once, not at each start, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo docs quick slow test proof test-torch test-jax quick-wheel bench lint build release pairs

demo: $(VENV)/.installed
	$(RUN) examples/demo.py

quick: export TRACELENS_GRAPH_CORPUS := none
quick: $(VENV)/.installed-dev
	$(RUN) $(PYTEST) -m '$(QUICK)' $(TESTS)

slow: export TRACELENS_GRAPH_CORPUS := none
slow: $(VENV)/.installed-dev
	report=$$(mktemp) && trap 'rm -f "$$report"' EXIT \
	&& $(RUN) $(PYTEST) -m 'not (neo4j or browser or corpus)' --junitxml="$$report" \
	&& $(RUN) tests/slow_tests.py "$$report"

test: MARKED ?= not proof
proof: MARKED ?= proof
test proof: $(VENV)/.installed-dev
	$(RUN) $(PYTEST) -m '$(MARKED)' $(TESTS)

# The copy holds all that tests read but the package, so that they import the one that is installed.
quick-wheel: build
	copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT \
	&& $(RUN) -m venv "$$copy/.venv" \
	&& "$$copy/.venv/bin/python" -m pip install -q --disable-pip-version-check "$$(echo "$$PWD"/dist/*.whl)[test]" \
	&& cp -R *.md *.toml benchmarks docker docs examples tests "$$copy" \
	&& cd "$$copy" && .venv/bin/python $(PYTEST) -m '$(QUICK) and not checkout' $(TESTS)

bench: $(VENV)/.installed-dev
	$(RUN) benchmarks/run.py $(BENCH)

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports
	$(RUN) tests/lint_scripts.py

docs: $(VENV)/.installed-dev
	$(VENV)/bin/zensical build --clean --strict

build: $(VENV)/.installed-dev
	rm -rf dist
	$(RUN) -m build --no-isolation
	$(RUN) -m twine check --strict dist/*
	$(RUN) -m pytest tests/test_packaging.py --wheel dist/*.whl

release: build
	$(RUN) docs/release.py "$(TAG)" dist/NOTES.md

pairs: TORCH ?= python3
pairs: $(VENV)/.installed-dev
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT \
	&& $(TORCH) examples/record_pairs.py "$$folder" \
	&& $(RUN) -m pytest tests/test_recorded_pairs.py tests/graph/test_recorded_lineage.py --pairs "$$folder"

test-torch: TORCH ?= .venv-torch/bin/python
test-torch: export TORCH_OLD := $(TORCH_OLD)
test-torch: $(if $(TORCH),,.venv-torch/.installed)
	$(TORCH) -m pytest -n 0 tests/torch_proof
	$(TORCH) tests/torch_proof/prove.py
	$(TORCH) tests/torch_proof/prove.py workloads --short

.venv-torch/.installed: pyproject.toml
	@test -x .venv-torch/bin/pip || "$(PYTHON)" -m venv .venv-torch
	.venv-torch/bin/python -m pip install -qq --disable-pip-version-check torch expecttest -e '.[test]'
	@touch $@

test-jax: .venv-jax/.installed
	.venv-jax/bin/python -m pytest -n 0 tests/jax_proof

.venv-jax/.installed: pyproject.toml
	@test -x .venv-jax/bin/pip || "$(PYTHON)" -m venv .venv-jax
	.venv-jax/bin/python -m pip install -qq --disable-pip-version-check 'jax[cpu]' -e '.[test]'
	@touch $@

# The first page of the README draws a roofline and writes a workbook; the demo asks in Cypher.
$(VENV)/.installed: EXTRAS := [cypher,plot,xlsx]
$(VENV)/.installed-dev: EXTRAS := [dev]
$(VENV)/.installed $(VENV)/.installed-dev: pyproject.toml
	@test -n "$(PYTHON)" || { echo 'no Python >= 3.11 with venv found; name one: make PYTHON=/path/to/python' >&2; exit 1; }
	@test -x $(VENV)/bin/pip || "$(PYTHON)" -m venv $(VENV)
	$(RUN) -m pip install -qq --disable-pip-version-check -e '.$(EXTRAS)'
	@touch $(VENV)/.installed $@
