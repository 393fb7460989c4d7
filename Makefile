# Everything runs in .venv, which is made on first use and again when pyproject.toml changes.
# Another interpreter: make PYTHON=python3.12 test. Arguments for a command: make demo ARGS="--hosts 50".
PYTHON ?= python3
ARGS ?=

SCENARIO ?= interop/testbed/scenarios/short.toml
INTEROP_PART := $(addprefix tests/interop/test_,matrix.py second_implementation.py overlays.py large_messages.py go_sources.py collector.py)
# Tests run in more processes than a small machine has cores, as many of them wait more than they
# compute; those that share a Spark session run in one of two of these (tests/conftest.py).
SIDE_BY_SIDE := -n 3
ALL_SIDE_BY_SIDE := -n 4
FAST := not (compiled or hosts or kafka or peers or quiet or sim or slow or spark or spark_processes)

VENV := .venv
BIN := $(VENV)/bin

# Where Python may keep what it has compiled, a worker of the tests starts in half the time, and so
# do the children of tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test suite collected check fast compiled complaints kafka spark lint docs release release-check interop interop-part interop-peers interop-sds proto bench results shadow testbed testbed-part testbed-tools upstream clean

demo: $(VENV)/.installed
	@$(BIN)/episub demo $(ARGS)

# The peers of other languages have a part in it, as far as they are built in less than a minute.
# py-libp2p's tests and the testbed wait for most of their time, and neither bears a busy machine: what
# computes beside them gets the smaller share of the cores.
test:
	@$(MAKE) --no-print-directory -s -j 2 $(VENV)/.installed-dev interop-part interop-sds testbed-tools
	@$(MAKE) --no-print-directory -j 2 ASIDE="nice -n 15" lint $(if $(ARGS),,upstream collected)
	@$(MAKE) --no-print-directory -j 2 ASIDE="nice -n 15" suite $(if $(ARGS),,testbed-part)

suite: $(VENV)/.installed-dev
	PATH="$(CURDIR)/$(PROMETHEUS)/usr/bin:$$PATH" $(ASIDE) $(BIN)/pytest $(if $(ARGS),$(ARGS),$(ALL_SIDE_BY_SIDE) -m "not (compiled or kafka or quiet or spark_processes)" tests $(INTEROP_PART) --without rust)

# In a new checkout each of the four workers would compile all tests.
collected: $(VENV)/.installed-dev
	@test -d tests/wire/__pycache__ || $(ASIDE) $(BIN)/pytest --collect-only -q >/dev/null

upstream: $(VENV)/.installed-dev
	$(BIN)/pytest -m quiet tests/upstream

testbed-part: $(VENV)/.installed-dev
	$(BIN)/python -m interop.testbed $(SCENARIO) --need-network || test $$? -eq 77

# What users of other pubsubs complain of, a minute each.
complaints: $(VENV)/.installed-dev testbed-tools
	for scenario in $(sort $(wildcard interop/testbed/scenarios/complaints/*.toml)); do \
	  $(BIN)/python -m interop.testbed $$scenario --need-network || test $$? -eq 77 || exit 1; done

# The core compiled with mypyc gives the same bytes as the pure Python.
compiled: $(VENV)/.installed-dev
	$(BIN)/pytest -m compiled tests/sim $(ARGS)

# All tables by both engines, a cluster of Spark, a server of Spark Connect, a stream that is killed:
# each takes minutes.
spark: $(VENV)/.installed-dev
	$(BIN)/pytest -m spark_processes tests/pipeline $(ARGS)

# Traces through a real Kafka broker, whose jars Maven brings.
kafka: $(VENV)/.installed-dev
	test -d build/kafka || mvn -q -B -f tests/trace/kafka-pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/build/kafka
	$(BIN)/pytest -m kafka tests/trace $(ARGS)

interop-part:
	@sh interop/build.sh js go

# For the inner loop: lint, types and the fast tests.
check: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j 2 lint fast

fast: $(VENV)/.installed-dev
	$(BIN)/pytest -n 2 -m "$(FAST)" $(ARGS)

# The npm implementation of SDS that ours is tested against; without Node.js those tests are skipped.
interop-sds:
	@if command -v npm >/dev/null; then \
	  test interop/js/sds/node_modules/.package-lock.json -nt interop/js/sds/package-lock.json || \
	    npm ci --loglevel=error --no-audit --no-fund --prefix interop/js/sds; \
	else echo "Node.js is not there: interop with the npm package is not tested."; fi

# Real processes in network namespaces, with faults: make testbed SCENARIO=FILE ARGS=--page
testbed: $(VENV)/.installed-dev
	$(BIN)/python -m interop.testbed $(SCENARIO) $(ARGS)

# Real nodes in virtual time, with the Shadow simulator: make shadow SCENARIO=FILE ARGS=--page
shadow: SCENARIO := interop/shadow/scenarios/six.toml
shadow: $(VENV)/.installed-dev
	$(BIN)/python -m interop.shadow $(SCENARIO) $(ARGS)

# What namespaces are made with, and promtool. Only CI gets them; elsewhere what needs them is skipped,
# with a line.
PROMETHEUS := build/prometheus
testbed-tools:
	@test -z "$${CI:-}" || test -d $(PROMETHEUS) || command -v promtool >/dev/null || \
	  { mkdir -p $(PROMETHEUS) && apt-get -qq update && cd $(PROMETHEUS) && \
	  apt-get -qq download prometheus && dpkg -x prometheus_*.deb .; } || true
	@test -z "$${CI:-}" || { command -v ip && command -v nft; } >/dev/null || \
	  { apt-get -qq update && apt-get -qq install -y iproute2 nftables libfaketime; } || true

# The router among peers of all languages. Peers whose toolchain isn't there are left out,
# except with CI=true. Writes the table in docs/interop.md.
interop: $(VENV)/.installed-dev interop-peers
	$(BIN)/pytest $(SIDE_BY_SIDE) tests/interop --interop-table $(ARGS)

interop-peers:
	@sh interop/build.sh

lint: $(VENV)/.installed-dev
	$(ASIDE) $(BIN)/ruff check .
	$(ASIDE) $(BIN)/ruff format --check .
	$(ASIDE) $(BIN)/mypy
	$(BIN)/python -m tests.docs.first_program build/typed
	$(ASIDE) $(BIN)/mypy docs/examples build/typed
	$(ASIDE) $(BIN)/lint-imports

proto: $(VENV)/.installed-dev
	PYTHON=$(BIN)/python sh proto/generate.sh

bench: $(VENV)/.installed-dev
	$(BIN)/python -m tests.benchmarks $(ARGS)

# Results again, in docs/results: make results ARGS="NAME ... --seeds 8 --compiled build/compiled"
results: $(VENV)/.installed-dev
	$(BIN)/python -m tests.results $(ARGS)
	$(BIN)/python -m tests.docs.figures --write

# The documentation as a site, in build/site; warnings are errors.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# What a release has to pass: distributions that the index takes, and the README's first program and a
# demo from the wheel, in an environment that has nothing else.
RELEASE := build/release
INTO_RELEASE := $(BIN)/python -m pip --python $(RELEASE)/bin/python --quiet --disable-pip-version-check
release-check: $(VENV)/.installed-release
	rm -rf dist $(RELEASE)
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv --without-pip $(RELEASE)
	$(INTO_RELEASE) install dist/*.whl
	$(BIN)/python -m tests.docs.first_program >$(RELEASE)/first_program.py
	cd $(RELEASE) && bin/episub --version && bin/python first_program.py
	cd $(RELEASE) && bin/episub demo $(or $(ARGS),--hosts 8 --messages 20)

# A release, in dist: sources, the pure wheel, the one compiled for this platform, the SBOM (what a
# plain installation brings) and the tag's notes.
COMPILED := build/release-compiled
release: $(VENV)/.installed-release
	$(BIN)/python -m tests.house.release
	@$(MAKE) --no-print-directory release-check
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
	  --output-file dist/episub-router.cdx.json $(RELEASE)/bin/python
	rm -rf $(COMPILED)
	EPISUB_COMPILE=1 $(BIN)/python -m build --wheel --outdir $(COMPILED) .
	$(INTO_RELEASE) uninstall --yes episub-router
	$(INTO_RELEASE) install $(COMPILED)/*.whl
	cd $(RELEASE) && bin/episub sim --version | grep compiled && bin/python first_program.py
	if test "$$(uname)" = Linux; then \
	  PATH="$(abspath $(BIN)):$$PATH" auditwheel repair --wheel-dir dist $(COMPILED)/*.whl; \
	else cp $(COMPILED)/*.whl dist; fi
	$(BIN)/twine check --strict dist/*.whl
	$(BIN)/python -m tests.house.release --notes >dist/notes.md

clean:
	rm -rf interop/js/*/node_modules interop/rust/target interop/go/bin
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/.installed: WHAT := .
$(VENV)/.installed: NAME := episub-router and what it needs
$(VENV)/.installed-dev: WHAT := .[dev]
$(VENV)/.installed-dev: NAME := episub-router, what it needs and the tools for its tests

$(VENV)/.installed-docs: WHAT := .[docs]
$(VENV)/.installed-docs: NAME := episub-router and the tools for its documentation
$(VENV)/.installed-release: WHAT := .[release]
$(VENV)/.installed-release: NAME := episub-router and the tools for its releases

$(VENV)/.installed $(VENV)/.installed-dev $(VENV)/.installed-docs $(VENV)/.installed-release: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo >&2 "episub-router needs Python 3.11 or later, and '$(PYTHON)' is" \
	    "$$($(PYTHON) --version 2>/dev/null || echo 'not there')."; \
	  echo >&2 "Name another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)"; \
	  exit 1; }
	@test -x $(BIN)/pip || { echo "Making $(VENV) ..."; $(PYTHON) -m venv --clear $(VENV); }
	@echo "Installing $(NAME) into $(VENV); the first time this takes a minute or two ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '$(WHAT)'
	@touch $(VENV)/.installed $@
	@echo "Installed."
