# These need only a checkout, Python and make; everything is installed into .venv.
#
#   make quickstart   trains on toy cars and evaluates
#   make test         the tests, minutes; arguments for pytest: make test PYTEST_ARGS='-k triplet'
#   make test-slow    those that are slow: several processes, killed runs, other backends, the wheel
#                     make test TESTS='not nightly' runs both, as .ci/run does: they share what is made for several
#   make test-all     all of them, and those that repeat for another method, loss or device what slow ones prove
#   make test-versions  the tests with each Python from 3.11 to 3.13 that is there, in .venv-3.11 and so on
#   make test-oracles compares with networks of torch and keras-hub, which it installs into .venv
#   make test-gpu     compares GPUs with the CPU, in .venv-gpu; without a GPU it installs nothing and says so
#   make test-beam    bulk embedding on Apache Beam, which it installs into .venv
#   make test-spark   bulk embedding on Apache Spark, which it installs into .venv; Java has to be there
#   make test-keras-next  whether Keras' nightly still has the private names that are used
#   make lint         style and format, and what a type checker says of the docs' examples
#   make site         builds the documentation site in build/site; its packages are in .venv-docs, without TensorFlow
#   make release      builds and checks a release in dist/; RELEASE_ARGS=--tag also tags it
#   make clean        removes .venv, .venv-gpu, .venv-docs and build files; keeps runs/
#
# Another interpreter: make test PYTHON=/path/to/python3.12

# Found by running it: a version manager's python3.11 can exist but refuse to run.
PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
PYTEST_ARGS ?=
# An expression of pytest's marks.
TESTS ?= not slow
VENV ?= .venv
# As setup.py says.
VERSIONS := 3.11 3.12 3.13

# For two cores: while a test waits, for another process or a clock, a third one computes.
PYTEST := $(VENV)/bin/python -m pytest --numprocesses=3 --dist=loadfile --no-loadscope-reorder --max-worker-restart=0
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet

# PyPI's torch installs CUDA; this build does not, and is enough.
TORCH := $(shell sed -n 's/^ *"\(torch==[^"]*\)",/\1/p' setup.py | head -1)
# They would install the package tensorflow over tensorflow-cpu.
BORROWED := $(shell sed -n 's/^ *"\(keras-\(hub\|cv\)~=[^"]*\)",/\1/p' setup.py)
# Those of the extra alone: tfdml's own packages would bring TensorFlow.
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
			echo "Skipped: there is no python$$version."; \
		fi; \
	done

test-oracles: $(VENV)/.oracles-installed
	$(VENV)/bin/python -m pytest tests/oracles $(PYTEST_ARGS)

test-gpu:
	@nvidia-smi --list-gpus >/dev/null 2>&1 || { echo "Skipped: nvidia-smi lists no GPU."; exit 0; }; \
		$(MAKE) --no-print-directory .venv-gpu/.test-installed && .venv-gpu/bin/python -m pytest -rs tests/gpu $(PYTEST_ARGS)

test-beam: $(VENV)/.beam-installed
	$(VENV)/bin/python -m pytest tests/test_embed_on_beam.py $(PYTEST_ARGS)

test-spark: $(VENV)/.spark-installed
	$(VENV)/bin/python -m pytest -rs tests/test_embed_on_spark.py $(PYTEST_ARGS)

# In front of Keras as it is installed, which stays.
test-keras-next: $(VENV)/.test-installed
	$(PIP) install --no-deps --upgrade --pre --target build/keras-next keras-nightly
	PYTHONPATH=build/keras-next $(VENV)/bin/python -m pytest tests/runtime/test_keras_internals.py $(PYTEST_ARGS)

lint: $(VENV)/.test-installed
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/python -m tests.typing.check

# Python finds tfdml and the hooks of the site here; neither is installed. With --quiet nothing would be strict.
site: .venv-docs/.docs-installed
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --config-file docs/site/mkdocs.yml
	@echo "Wrote build/site/index.html, which opens without a server"

release: $(VENV)/.test-installed
	$(VENV)/bin/python .ci/release.py $(RELEASE_ARGS)

clean:
	rm -rf .venv .venv-gpu .venv-docs $(VERSIONS:%=.venv-%) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# The stamps are files, so that the second time costs nothing, and are in .venv, so that they disappear with it.
$(VENV)/.made .venv-gpu/.made .venv-docs/.made:
	@$(PYTHON) -c '' || { echo "Error: cannot run '$(PYTHON)'. Install Python 3.11, or: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "Error: needs Python 3.11, 3.12 or 3.13, received $$($(PYTHON) --version 2>&1). Name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
		|| { echo "Error: $(PYTHON) cannot create virtual environments. Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
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
		|| echo "No $(TORCH) at $(TORCH_INDEX); using PyPI's."
	@$(PIP) install --no-deps $(BORROWED)
	@$(PIP) install --editable '.[oracles]'
	@touch $@

# tensorflow and faiss-gpu own the same files as tensorflow-cpu and faiss-cpu.
.venv-gpu/.test-installed: setup.py pyproject.toml | .venv-gpu/.made
	@echo "Installing tfdml[gpu,test] into .venv-gpu: several GB, some minutes"
	@.venv-gpu/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[gpu,test]'
	@touch $@

.venv-docs/.docs-installed: setup.py | .venv-docs/.made
	@echo "Installing what builds the site into .venv-docs: about 200 MB on disk, a minute"
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
