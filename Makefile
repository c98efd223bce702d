PYTHON ?= python3
VENV := .venv
BENCH := .venv-bench
PIP := -m pip -qq --no-input --disable-pip-version-check

.DEFAULT_GOAL := help
# An install that failed must not look finished.
.DELETE_ON_ERROR:
# Two installs at once would spoil the environment they share.
.NOTPARALLEL:
# Some machines set it: every process would then compile every module it imports, 3 seconds each time.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo live docs test test-long coverage check hostile bench lock clean

help:  ## List what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/run.stamp  ## Install, then reproduce the paper's results in small, with a report
	@echo "Reproducing the paper's synthetic results in small settings (about a minute) …"
	@$(VENV)/bin/influential-bandits reproduce --quick --out results/demo

live: $(VENV)/run.stamp  ## Install, then serve a made-up shop on http://127.0.0.1:8000
	@$(VENV)/bin/influential-bandits shop

docs: $(VENV)/docs.stamp  ## Install, then build the documentation: build/site/index.html
	@echo "Building the site; the first time, the code of its tutorials is compiled (a minute or two) …"
	@$(VENV)/bin/python -m docs.site

TESTS := pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
PYTEST := $(VENV)/bin/python -m $(TESTS)
COVERAGE := $(VENV)/bin/python -m coverage

test: $(VENV)/dev.stamp  ## Run the tests
	@echo "Running the tests …"
	@$(PYTEST) -m 'not long'

test-long: $(VENV)/dev.stamp  ## Run those left out: kills, memory, statistics, installs; PART=1/3 a third
	@echo "Running the long tests …"
	@$(PYTEST) -m long $(if $(PART),--part $(PART))

coverage: $(VENV)/dev.stamp  ## Say which branches `make test` reaches, and which all tests do
	@rm -rf build/coverage && mkdir -p build/coverage
	@for part in 'not long' long; do \
		echo "Running the tests marked $$part, and noting branches …" && \
		$(COVERAGE) run -m $(TESTS) -m "$$part" && \
		$(COVERAGE) combine --append --quiet && \
		$(COVERAGE) report || exit 1; \
	done

check: $(VENV)/dev.stamp  ## Lint, format, types, layers, links, spelling and doctests
	@echo "Linting …"
	@$(VENV)/bin/ruff check
	@echo "Checking the format …"
	@$(VENV)/bin/ruff format --check
	@echo "Checking the layers …"
	@$(VENV)/bin/lint-imports
	@echo "Checking the links …"
	@$(VENV)/bin/python -m docs.site.links
	@echo "Checking the spelling …"
	@$(VENV)/bin/codespell
	@echo "Checking the types and running the doctests, side by side …"
	@$(VENV)/bin/mypy --strict src & types=$$!; \
	$(VENV)/bin/python -m pytest --quiet --doctest-modules src; doctests=$$?; \
	wait $$types && exit $$doctests

hostile: $(VENV)/dev.stamp  ## Try hostile files, numbers, disks and kills: CASES=3000 ONLY='text logs' SEED=1
	@echo "Playing hostile cases …"
	@cd tests && ../$(VENV)/bin/python -m hostile $(if $(CASES),--cases $(CASES)) \
		$(if $(ONLY),--only '$(ONLY)') $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE)) \
		$(if $(SOURCE),--source '$(abspath $(SOURCE))')

bench: $(BENCH)/bench.stamp  ## Measure against other libraries, in an environment of their own
	@echo "Running the benchmarks …"
	@$(BENCH)/bin/python -m benchmarks

lock:  ## Pin requirements/*.txt again; UPGRADE=1 takes the newest of everything
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && \
	echo "Installing uv into a throw-away environment …" && \
	$(PYTHON) -m venv "$$tools" && "$$tools/bin/python" $(PIP) install uv && \
	pin() { \
		lock=requirements/$$1.txt; shift; \
		echo "Pinning $$lock …"; \
		"$$tools/bin/uv" pip compile pyproject.toml "$$@" --output-file "$$lock" \
			--universal --python-version 3.11 --generate-hashes \
			--no-emit-index-url --no-emit-find-links \
			--custom-compile-command "make lock" --quiet $(if $(UPGRADE),--upgrade); \
	} && \
	pin run --group build && \
	pin docs --extra gym --group docs --constraints requirements/run.txt && \
	pin dev --extra all --group dev --constraints requirements/run.txt && \
	pin bench --extra all --group bench --constraints requirements/run.txt

clean:  ## Remove the environments, the caches and the results
	@echo "Removing environments, caches and results …"
	@rm -rf $(VENV) $(BENCH) .hypothesis .*_cache build dist results
	@find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# dev.txt is a superset of run.txt, so that `make demo` after `make test` has nothing to install.
$(VENV)/dev.stamp: requirements/dev.txt pyproject.toml $(VENV)/pyvenv.cfg
	$(install)
	@touch $(VENV)/run.stamp $(VENV)/docs.stamp

$(VENV)/run.stamp: requirements/run.txt pyproject.toml $(VENV)/pyvenv.cfg
	$(install)

$(VENV)/docs.stamp: requirements/docs.txt pyproject.toml $(VENV)/pyvenv.cfg
	$(install)

$(BENCH)/bench.stamp: requirements/bench.txt pyproject.toml $(BENCH)/pyvenv.cfg
	$(install)

# Python compiles a module when it is first imported; to compile all of them takes half of pip's time.
define install
@echo "Installing pinned packages into $(@D) (first time only) …"
@$(@D)/bin/python $(PIP) install --no-compile --require-hashes --requirement $<
@$(@D)/bin/python $(PIP) install --no-deps --no-build-isolation --editable .
@touch $@
endef

%/pyvenv.cfg:
	@command -v $(PYTHON) >/dev/null || \
		{ echo "$(PYTHON) was not found; name a Python of version 3.11 or newer, as in: make PYTHON=python3.12 demo" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed and $(PYTHON) is $$($(PYTHON) --version 2>&1); name another, as in: make PYTHON=python3.12 demo" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot create virtual environments; install its venv package (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@echo "Creating $* with $$($(PYTHON) --version) …"
	@$(PYTHON) -m venv --clear $*
