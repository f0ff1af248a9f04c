# These targets only need a checkout, Python and make. They install everything into .venv.
#
#   make quickstart   trains on toy cars and evaluates the model
#   make test         runs the tests in a few minutes; for pytest arguments: make test PYTEST_ARGS='-k triplet'
#   make test-slow    runs slow tests: several processes, killed runs, other backends, the wheel
#                     make test TESTS='not nightly' runs both kinds, like .ci/run, so that they share fixtures
#   make test-all     runs all tests, including those that repeat slow tests for another method, loss or device
#   make test-versions  runs the tests with each installed Python from 3.11 to 3.13, in .venv-3.11 and so on
#   make test-oracles compares with networks of torch and keras-hub, which it installs into .venv
#   make test-gpu     compares GPUs with the CPU, in .venv-gpu; without a GPU, it prints a message and installs nothing
#   make test-beam    tests bulk embedding on Apache Beam, which it installs into .venv
#   make test-spark   tests bulk embedding on Apache Spark, which it installs into .venv; needs Java
#   make test-keras-next  tests whether Keras' nightly build still has the private names that tfdml uses
#   make lint         checks style, format, and the types in the examples of the docs
#   make site         builds the documentation site in build/site; its packages are in .venv-docs, without TensorFlow
#   make release      builds and checks a release in dist/; RELEASE_ARGS=--tag also tags it
#   make clean        removes .venv, .venv-gpu, .venv-docs and build files, but not runs/
#
# To use another interpreter: make test PYTHON=/path/to/python3.12

# python3.11 is run to find it, because the python3.11 of a version manager can exist but refuse to run.
PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
PYTEST_ARGS ?=
# A pytest expression of marks.
TESTS ?= not slow
VENV ?= .venv
# The same versions as in setup.py.
VERSIONS := 3.11 3.12 3.13

# Three processes are for two cores, because tests also wait for other processes or a clock.
PYTEST := $(VENV)/bin/python -m pytest --numprocesses=3 --dist=loadfile --no-loadscope-reorder --max-worker-restart=0
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet

# PyPI's torch installs CUDA. This build does not, and it is enough.
TORCH := $(shell sed -n 's/^ *"\(torch==[^"]*\)",/\1/p' setup.py | head -1)
# Their dependencies would install the package tensorflow over tensorflow-cpu.
BORROWED := $(shell sed -n 's/^ *"\(keras-\(hub\|cv\)~=[^"]*\)",/\1/p' setup.py)
# Only the packages of the extra, because tfdml's requirements would install TensorFlow.
DOCS := $(shell sed -n '/^DOCS = /,/^]/s/^ *\("[^"]*"\),/\1/p' setup.py)
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: quickstart test test-slow test-nightly test-all test-versions test-oracles test-gpu test-beam test-spark test-keras-next lint site release clean

quickstart: $(VENV)/.cpu-installed
	$(VENV)/bin/python -m tfdml.train --flagfile=configs/quickstart.flags

test: $(VENV)/.test-installed
	$(PYTEST) -m '$(TESTS)' $(PYTEST_ARGS)

test-slow: $(VENV)/.test-installed
	$(PYTEST) -m 'slow and not nightly' $(PYTEST_ARGS)

test-nightly: $(VENV)/.test-installed
	$(PYTEST) -m nightly $(PYTEST_ARGS)

test-all: TESTS = not nightly
test-all: test test-oracles test-beam test-spark test-nightly

test-versions:
	@for version in $(VERSIONS); do \
		if python$$version -c '' 2>/dev/null; then \
			$(MAKE) --no-print-directory test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
		else \
			echo "Skipped: python$$version is not installed."; \
		fi; \
	done

test-oracles: $(VENV)/.oracles-installed
	$(VENV)/bin/python -m pytest tests/oracles tests/backends $(PYTEST_ARGS)

test-gpu:
	@nvidia-smi --list-gpus >/dev/null 2>&1 || { echo "Skipped: nvidia-smi does not list a GPU."; exit 0; }; \
		$(MAKE) --no-print-directory .venv-gpu/.test-installed && .venv-gpu/bin/python -m pytest -rs tests/gpu $(PYTEST_ARGS)

test-beam: $(VENV)/.beam-installed
	$(VENV)/bin/python -m pytest tests/test_embed_on_beam.py $(PYTEST_ARGS)

test-spark: $(VENV)/.spark-installed
	$(VENV)/bin/python -m pytest -rs tests/test_embed_on_spark.py $(PYTEST_ARGS)

# Keras' nightly build comes first on the path, and the installed Keras is not changed.
test-keras-next: $(VENV)/.test-installed
	$(PIP) install --no-deps --upgrade --pre --target build/keras-next keras-nightly
	PYTHONPATH=build/keras-next $(VENV)/bin/python -m pytest tests/runtime/test_keras_internals.py $(PYTEST_ARGS)

lint: $(VENV)/.test-installed
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/python -m tests.typing.check

# PYTHONPATH lets Python find tfdml and the hooks of the site, which are not installed. With --quiet, MkDocs would not be
# strict.
site: .venv-docs/.docs-installed
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --config-file docs/site/mkdocs.yml
	@echo "Wrote build/site/index.html, which opens without a server"

release: $(VENV)/.test-installed
	$(VENV)/bin/python .ci/release.py $(RELEASE_ARGS)

clean:
	rm -rf .venv .venv-gpu .venv-docs $(VERSIONS:%=.venv-%) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# The stamps are files in .venv, so that a second call costs nothing and removing .venv removes them.
$(VENV)/.made .venv-gpu/.made .venv-docs/.made:
	@$(PYTHON) -c '' || { echo "Error: '$(PYTHON)' cannot be run. Install Python 3.11, or use make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "Error: tfdml needs Python 3.11, 3.12 or 3.13. Received: $$($(PYTHON) --version 2>&1). Use make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
		|| { echo "Error: $(PYTHON) cannot create virtual environments. On Debian and Ubuntu, run apt install python3-venv" >&2; exit 1; }
	@echo "Creating $(@D) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(@D)
	@touch $@

$(VENV)/.cpu-installed: setup.py pyproject.toml | $(VENV)/.made
	@echo "Installing tfdml[cpu] into $(VENV): about 2 GB on disk, some minutes"
	@$(PIP) install --editable '.[cpu]'
	@touch $@

$(VENV)/.test-installed: setup.py pyproject.toml | $(VENV)/.made
	@echo "Installing tfdml[cpu,test] into $(VENV): about 2 GB on disk, some minutes"
	@$(PIP) install --editable '.[cpu,test]'
	@touch $(VENV)/.cpu-installed $@

$(VENV)/.oracles-installed: setup.py pyproject.toml | $(VENV)/.test-installed
	@echo "Installing tfdml[oracles] into $(VENV): about 1 GB on disk, a minute"
	@$(PIP) install --no-deps --retries 1 --index-url $(TORCH_INDEX) '$(TORCH)' \
		|| echo "$(TORCH) is not available at $(TORCH_INDEX). It will be installed from PyPI."
	@$(PIP) install --no-deps $(BORROWED)
	@$(PIP) install --no-deps 'tensorflow-text~=2.21.0'
	@$(PIP) install --editable '.[oracles]'
	@touch $@

# tensorflow and faiss-gpu own the same files as tensorflow-cpu and faiss-cpu.
.venv-gpu/.test-installed: setup.py pyproject.toml | .venv-gpu/.made
	@echo "Installing tfdml[gpu,test] into .venv-gpu: several GB, some minutes"
	@.venv-gpu/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[gpu,test]'
	@touch $@

.venv-docs/.docs-installed: setup.py | .venv-docs/.made
	@echo "Installing the packages for the site into .venv-docs: about 200 MB on disk, a minute"
	@.venv-docs/bin/python -m pip --disable-pip-version-check --quiet install $(DOCS)
	@touch $@

$(VENV)/.beam-installed: setup.py pyproject.toml | $(VENV)/.test-installed
	@echo "Installing tfdml[beam] into $(VENV): about 1 GB on disk, a minute"
	@$(PIP) install --editable '.[beam]'
	@touch $@

$(VENV)/.spark-installed: setup.py pyproject.toml | $(VENV)/.test-installed
	@echo "Installing tfdml[spark] into $(VENV): about 0.5 GB on disk, a minute"
	@$(PIP) install --editable '.[spark]'
	@touch $@
