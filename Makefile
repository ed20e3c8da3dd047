# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test full types docs dist adapters tests test-postgresql postgresql caches thorough screenshots bench crash clean

demo: $(VENV)/run
	@$(BIN)/interlock demo

test: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --jobs=2 types tests docs

types: $(VENV)/dev
	$(BIN)/pyright
	$(BIN)/lint-imports

# Any warning fails: a broken link, a page that no list of pages has, a name that is not found.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/dev
	$(BIN)/mkdocs build --strict

# Both distributions, as wheels: interlock-gate, and interlock, which requires it.
dist: $(VENV)/dev
	$(BIN)/python -m tests.support.distributions dist

# Each adapter's tests with its real framework, in an environment of its own below .venv-adapters, which is made
# again where its requirements have changed; ADAPTERS="crewai ag2" for some. Frameworks that CI has are tested by `tests` as well.
adapters: $(VENV)/dev
	$(BIN)/python -m tests.adapters.environments $(ADAPTERS)

# Four processes keep two processors busy, as consoles under test wait as much as they compute. Each has folders of
# its own, and collects only those; the last has whatever the others have not. To collect all tests in each process,
# as pytest-xdist does, took 70 of 410 processor seconds. What they start again and again need not be compiled each
# time, even where the environment says so.
TESTS_1 := $(addprefix tests/engine/,agents approvals gate gateway sessions)
TESTS_2 := $(addprefix tests/engine/,backtest core flows history hub net recording verify) tests/app/hosting
TESTS_3 := $(addprefix tests/app/,cli connect console web)
TESTS_4 := tests $(addprefix --ignore=,$(TESTS_1) $(TESTS_2) $(TESTS_3))
PARTS := tests-1 tests-2 tests-3 tests-4
# Not every snapshot is compared with each change: `make full` finds those that nothing needs.
SNAPSHOTS := $(if $(HYPOTHESIS_PROFILE),,--snapshot-warn-unused)
.PHONY: $(PARTS)

tests: export PYTHONDONTWRITEBYTECODE =
tests: export INTERLOCK_TEST_RUN := $(shell date +%s%N)
tests: $(VENV)/dev
	@MAKEFLAGS= $(MAKE) --no-print-directory --jobs=4 --keep-going $(PARTS)

$(PARTS): tests-%:
	$(BIN)/pytest -q --no-header $(SNAPSHOTS) $(TESTS_$*)

# Some screens with Textual's caches as they ship, of which the tests above have their own.
caches: export TEXTUAL_CACHES = shipped
caches: export PYTHONDONTWRITEBYTECODE =
caches: $(VENV)/dev
	$(BIN)/pytest tests/app/console/test_every_view.py -k "shows_acts and ($(SCREENS))"

# Tests of journals, replay, decisions and flows with their journals in PostgreSQL instead of files.
ON_POSTGRESQL := tests/engine/history tests/engine/recording tests/engine/backtest tests/engine/flows \
	tests/engine/sessions/flow tests/engine/hub tests/app/cli/history tests/app/cli/journal

test-postgresql: export INTERLOCK_TEST_DATABASE = postgresql
test-postgresql: export HYPOTHESIS_PROFILE = full
test-postgresql: export PYTHONDONTWRITEBYTECODE =
test-postgresql: $(VENV)/dev
	$(BIN)/pytest -n 4 --dist worksteal $(ON_POSTGRESQL)

# Some of them in each run.
postgresql: export INTERLOCK_TEST_DATABASE = postgresql
postgresql: export PYTHONDONTWRITEBYTECODE =
postgresql: $(VENV)/dev
	$(BIN)/pytest -q tests/engine/history/journal/test_journal.py tests/engine/history/journal/test_reader.py \
		tests/engine/history/decisions/test_precedents.py tests/engine/history/decisions/test_calls.py \
		tests/engine/history/decisions/test_call_pages.py tests/engine/history/decisions/test_index.py

SCREENS := live-nets or approval-whole or edit-review or batch-read or answer-form or rules-errors or replay-nets

# The tests above and those that take too long to be run with each change: before a merge.
full: export HYPOTHESIS_PROFILE = full
full: test
	@$(MAKE) --no-print-directory --jobs=2 caches postgresql

# All examples of every law, the longest tests, and Textual's caches as they ship: before a release.
thorough: export HYPOTHESIS_PROFILE = thorough
thorough: $(VENV)/dev
	$(BIN)/pytest -n 4 --dist worksteal --timeout 1800

bench: $(VENV)/dev
	$(BIN)/python -m tests.bench

# A busy host is ended this many times in each way, and started again on what it left.
crash: export CRASH_RUNS ?= 200
crash: export HYPOTHESIS_PROFILE = full
crash: $(VENV)/dev
	$(BIN)/pytest -n 2 --dist loadfile tests/crash

screenshots: $(VENV)/dev
	$(BIN)/python -m tests.support.screenshots screenshots
	$(BIN)/python -m tests.support.web_screenshots screenshots

# The stamps say which set of dependencies the environment holds; a changed pyproject.toml renews them. The
# tests compile packages as they use them: most modules are never used, and to compile all takes half of the time.
# The pip that comes with an older Python compares the tags of each file of an index one by one, which takes as
# long as all else; where no newer one is to be had it does as well. Newer ones print what the build says of
# folders without modules unless they are to be quiet twice.
NEWER_PIP = -@$(BIN)/pip install --quiet --disable-pip-version-check 'pip>=25'

$(VENV)/run: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Interlock into $(VENV); the first time takes a minute or two."
	$(NEWER_PIP)
	$(BIN)/pip install --quiet --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(NEWER_PIP)
	$(BIN)/pip install --quiet --quiet --disable-pip-version-check --no-compile -e '.[dev,docs]'
	touch $@ $(VENV)/run

clean:
	rm -rf $(VENV) .venv-adapters build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
