# `make wheel`, `make demo` and `make test` are all a newcomer needs. They create .venv, install the pinned packages of
# requirements/, build the wheel and run; stamps in .venv make the second run quick.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
CARGO := cargo
# The peers of the Rust benchmarks are built apart from everything else.
PEERS := $(CURDIR)/.build/peers

# The first interpreter that runs, is new enough and can make environments. PySpark 4.3 wants 3.11.
ifndef PYTHON
PYTHON := $(shell for python in python3 python3.13 python3.12 python3.11 python3.14 python3.10 python; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$python; exit; }; done; \
	for python in python3 python3.10; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1 && { echo $$python; exit; }; done)
endif

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml)
WHEEL_SOURCES := $(RUST_SOURCES) pyproject.toml README.md $(shell find python -name '*.py' -o -name '*.pyi' -o -name '*.json')
PLUGIN_SOURCES := spark-plugin/pyproject.toml $(shell find spark-plugin/pyspark_pennon -name '*.py')

# Everything that starts Spark gets the runtime and the interpreter it shall use.
SPARK_ENV = SPARK_LOCAL_IP=127.0.0.1 JAVA_HOME="$$(cat $(VENV)/.java)" PYSPARK_PYTHON="$(CURDIR)/$(PY)" PYSPARK_DRIVER_PYTHON="$(CURDIR)/$(PY)"

.PHONY: help
help:
	@echo "make wheel   the wheel, in dist/"
	@echo "make demo    flights through Spark into a Lance table"
	@echo "make test    all tests"
	@echo "make nightly all tests, the long ones too"
	@echo "make check   format, lints, types, documentation"
	@echo "make bench   comparison with pylance, Rust benchmarks"
	@echo "make docs    Rust documentation in target/doc"
	@echo "make clean   remove .venv, .build, dist and caches"

# The wheel that is shipped takes longer to build; everything else uses one of the quick profile.
.PHONY: wheel
wheel: dist/.built
	@ls dist/*.whl

.PHONY: demo
demo: $(VENV)/.wheel $(VENV)/.plugin $(VENV)/.java
	@$(SPARK_ENV) $(PY) demo/flights.py --directory .build/demo

.PHONY: test
test: test-rust test-python
	@echo "make test: all tests passed"

.PHONY: test-rust
test-rust: | toolchain
	# The whole workspace, though the extension module has no Rust tests: so the dependencies get the same features
	# as in the wheel and are compiled once.
	$(CARGO) test --release --locked --quiet --workspace

.PHONY: test-python
test-python: $(VENV)/.wheel $(VENV)/.plugin $(VENV)/.test $(VENV)/.java
	$(PY) -m pytest --quiet tests/python tests/parity
	$(PY) -m pytest --quiet --doctest-modules --pyargs pennon
	$(SPARK_ENV) $(PY) -m pytest --quiet tests/spark

.PHONY: nightly
nightly: test
	# A million histories of commits, of which none may violate an invariant.
	PENNON_HISTORIES=1000000 $(CARGO) test --release --locked --quiet --workspace --test simulator
	PENNON_LONG_TESTS=1 $(PY) -m pytest --quiet tests/python tests/parity
	@echo "make nightly: all tests passed"

.PHONY: check
check: $(VENV)/.wheel $(VENV)/.plugin $(VENV)/.check
	$(PY) tests/glossary.py
	$(PY) tests/floors.py
	$(PY) tests/scan_signatures.py
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy
	MYPYPATH= $(BIN)/mypy --config-file spark-plugin/pyproject.toml spark-plugin/pyspark_pennon
	$(BIN)/stubtest --mypy-config-file pyproject.toml --allowlist tests/stubtest.allow pennon._native
	@echo "make check: all checks passed"

.PHONY: bench
bench: export PYTHONPATH = $(CURDIR)/.build/shipped
bench: .build/shipped/.installed $(VENV)/.wheel $(VENV)/.bench
	$(PY) benches/python/compare.py
	$(PY) benches/python/commits.py
	$(PY) benches/python/datafile.py
	$(PY) benches/python/memory.py
	$(PY) benches/python/large_values.py
	$(PY) benches/python/rows.py
	$(PY) benches/python/growth.py
	$(PY) benches/python/object_store.py
	$(CARGO) bench --profile dist --locked --workspace --exclude pennon-py --bench '*'
	cd benches/peers && PROTOC="$(CURDIR)/$(BIN)/protoc" $(CARGO) bench --locked --quiet --target-dir "$(PEERS)" > "$(PEERS).log"
	$(PY) benches/peers/table.py "$(PEERS)/criterion"
	cd benches/peers && PROTOC="$(CURDIR)/$(BIN)/protoc" $(CARGO) run --release --locked --quiet --target-dir "$(PEERS)"

.PHONY: docs
docs: | toolchain
	$(CARGO) doc --workspace --no-deps --locked
	@echo "open target/doc/pennon_table/index.html"

.PHONY: clean
clean:
	rm -rf $(VENV) .build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	rm -rf spark-plugin/build spark-plugin/*.egg-info
	find . -name __pycache__ -not -path './target/*' -prune -exec rm -rf {} +

.PHONY: toolchain
toolchain:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.90 or later, see https://rustup.rs" >&2; exit 1; }
	@$(CARGO) --version | awk '{ split($$2, v, "."); if (v[1] < 1 || (v[1] == 1 && v[2] < 90)) \
		{ print "cargo " $$2 " is too old: Pennon needs Rust 1.90 or later, see https://rustup.rs" > "/dev/stderr"; exit 1 } }'

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Python 3.10 or later with venv is missing; name one with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.maturin: requirements/wheel.txt requirements/constraints.txt | $(VENV)/.made
	$(PIP) -r requirements/wheel.txt
	@touch $@

$(VENV)/.demo: requirements/demo.txt requirements/wheel.txt requirements/constraints.txt | $(VENV)/.made
	$(PIP) -r requirements/demo.txt
	@touch $@

$(VENV)/.test: requirements/test.txt requirements/constraints.txt | $(VENV)/.demo
	$(PIP) -r requirements/test.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt requirements/constraints.txt | $(VENV)/.test
	$(PIP) -r requirements/bench.txt
	@touch $@

$(VENV)/.check: requirements/check.txt requirements/constraints.txt | $(VENV)/.test
	$(PIP) -r requirements/check.txt
	@touch $@

$(VENV)/.java: requirements/java_home.py | $(VENV)/.demo
	$(PY) requirements/java_home.py > $@

# One wheel serves every supported version of Python.
dist/.built: $(WHEEL_SOURCES) | toolchain $(VENV)/.maturin
	rm -rf dist
	$(BIN)/maturin build --profile dist --locked --quiet --interpreter $(PY) --out dist
	@touch $@

.build/shipped/.installed: dist/.built | $(VENV)/.demo
	rm -rf .build/shipped
	$(PIP) --no-deps --target .build/shipped dist/*.whl
	@touch $@

.build/quick/.built: $(WHEEL_SOURCES) | toolchain $(VENV)/.maturin
	rm -rf .build/quick
	$(BIN)/maturin build --profile release --locked --quiet --interpreter $(PY) --out .build/quick
	@touch $@

$(VENV)/.wheel: .build/quick/.built | $(VENV)/.demo
	$(PIP) --no-deps --force-reinstall .build/quick/*.whl
	@touch $@

$(VENV)/.plugin: $(PLUGIN_SOURCES) | $(VENV)/.demo
	$(PIP) --no-deps --no-build-isolation --force-reinstall ./spark-plugin
	@touch $@
