# `make wheel`, `make demo` and `make test` are all a newcomer needs. They create .venv, install the pinned packages of
# requirements/, build the wheel and run; stamps in .venv make the second run quick. Who changes something runs
# `make quick`, after the first `make develop` without a build unless Rust was changed.

# Apple's make is 3.81, which ignores .SHELLFLAGS: failures within a recipe would pass.
$(if $(filter 3.%,$(MAKE_VERSION)),$(error make $(MAKE_VERSION) is too old: Pennon needs GNU make 4, on macOS gmake of "brew install make"))

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
CARGO := cargo
PYTEST := $(PY) -m pytest --quiet
# What one process of the tests compiles is there for all, also where this is set.
unexport PYTHONDONTWRITEBYTECODE
# More than there are processors: many tests wait for the disk, or for processes of their own.
PROCESSES := $(shell echo $$(($$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 4)))
# Seconds; a test that takes longer is marked `slow`.
QUICK_TIMEOUT := 20
# More for the tests in Python: make quick ARGS="-k merge", make nightly ARGS=-x
ARGS ?=
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
WHEEL_SOURCES := $(RUST_SOURCES) pyproject.toml README.md LICENSE NOTICE THIRD_PARTY_LICENSES $(shell find python -name '*.py' -o -name '*.pyi' -o -name '*.json')
PLUGIN_SOURCES := spark-plugin/pyproject.toml $(shell find spark-plugin/pyspark_pennon -name '*.py')

# Everything that starts Spark gets the runtime and the interpreter it shall use.
SPARK_ENV = SPARK_LOCAL_IP=127.0.0.1 JAVA_HOME="$$(cat $(VENV)/.java)" PYSPARK_PYTHON="$(CURDIR)/$(PY)" PYSPARK_DRIVER_PYTHON="$(CURDIR)/$(PY)"

.PHONY: help
help:
	@echo "make wheel   the wheel, in dist/"
	@echo "make wheels  wheels for Linux on x86-64 and aarch64 and for PySpark, in .build/wheels; WHEEL_TARGETS=... names others"
	@echo "make wheel-spark  the one for PySpark, in .build/wheels; needs no Rust"
	@echo "make demo    flights through Spark into a Lance table; PREBUILT=... is a wheel, and nothing is compiled"
	@echo "make develop the package, installed as it is in python/: edits of Python need no build"
	@echo "make quick   lints, types, and the fast tests in Python; ARGS=... is for pytest"
	@echo "make lint    words, imports, format, types; needs no build"
	@echo "make fmt     formats Rust and Python"
	@echo "make test    all tests"
	@echo "make nightly all tests, the long ones too, from a random seed; SEED=... sets it; nightly-python and others are its parts"
	@echo "make soak    an hour of processes that change tables and are killed, with Spark and on S3 as well, every answer and version compared; SECONDS=... sets it"
	@echo "make schedules  threads that share work, under thousands of schedules that are drawn"
	@echo "make miri    code for particular processors, in an interpreter that finds undefined behaviour; needs nightly Rust"
	@echo "make fuzz    decoders of files, SQL, jobs and options with damaged bytes, guided by coverage; FUZZ_SECONDS=... for each of FUZZ_TARGETS=..."
	@echo "make fuzz-coverage  the lines of decoders that the corpus of make fuzz reaches; installs LLVM's tools by rustup"
	@echo "make lanes   every verb with other releases of PySpark, and through Spark Connect"
	@echo "make neighbours  other releases of pylance read Pennon's tables, and Pennon theirs; writes docs/readers.md"
	@echo "make check   lints, the site, clippy, rustdoc, stubs, licences"
	@echo "make audit   licences, sources and known faults of what is linked and installed; needs the network"
	@echo "make bench   comparison with pylance, Rust benchmarks"
	@echo "make figures  those of docs/performance.md: pylance, DuckDB, Polars, delta-rs, pyiceberg; ARGS='--only pylance'"
	@echo "make figures-spark  those of Spark there: Delta, Iceberg, Parquet; half an hour"
	@echo "make docs    the site, in .build/site"
	@echo "make docs-browser  the site in Chromium: pages render, the search finds"
	@echo "make docs-rust  Rust documentation in target/doc"
	@echo "make clean   remove .venv, .build, dist and caches"

# The wheel that is shipped takes longer to build; everything else uses one of the quick profile.
.PHONY: wheel
wheel: dist/.built
	@ls dist/*.whl

# Wheels to publish. Those for Linux are linked by zig against an old C library, that of pyarrow's wheels, whatever machine
# builds them; those for macOS are built on macOS.
WHEEL_TARGETS ?= x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
MANYLINUX := manylinux_2_28

.PHONY: wheels
wheels: $(WHEEL_TARGETS:%=.build/wheels/%/.built) wheel-spark
	$(PY) requirements/check_wheels.py $(WHEEL_TARGETS:%=.build/wheels/%/*.whl)

# The package for PySpark is pure Python.
.PHONY: wheel-spark
wheel-spark: .build/wheels/pyspark-pennon/.built
	$(PY) requirements/check_wheels.py .build/wheels/pyspark-pennon/*.whl

.build/wheels/pyspark-pennon/.built: $(PLUGIN_SOURCES) spark-plugin/README.md spark-plugin/LICENSE spark-plugin/NOTICE | $(VENV)/.demo
	# What an earlier build left would be packed, too.
	rm -rf $(@D) spark-plugin/build
	$(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir $(@D) ./spark-plugin
	@touch $@

.build/wheels/%/.built: $(WHEEL_SOURCES) | toolchain $(VENV)/.zig
	@command -v rustup >/dev/null || { echo "rustup is missing, which installs the standard library of $*: see https://rustup.rs" >&2; exit 1; }
	rustup target add $*
	rm -rf $(@D)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --profile dist --locked --quiet --target $* --out $(@D) \
		$(if $(findstring linux,$*),--zig --compatibility $(MANYLINUX))
	$(PY) requirements/neutral_sbom.py $(@D)/*.whl
	@touch $@

# A wheel that somebody built: make demo PREBUILT=dist/pennon-0.1.0-cp310-abi3-manylinux_2_28_x86_64.whl
PREBUILT ?=

.PHONY: demo
demo: $(if $(PREBUILT),prebuilt,$(VENV)/.wheel) $(VENV)/.plugin $(VENV)/.java
	@$(SPARK_ENV) $(PY) demo/flights.py --directory .build/demo

.PHONY: develop
develop: $(VENV)/.develop
	@echo "make develop: python/ and spark-plugin/ are installed as they are"

.PHONY: quick
quick: lint $(VENV)/.develop
	$(PYTEST) -m "not slow" --numprocesses=auto --dist=worksteal --timeout=$(QUICK_TIMEOUT) tests/python $(ARGS)
	@echo "make quick: the fast tests passed"

.PHONY: test
test:
	# The tests in Rust leave processors idle at times, in which the environment of the others is made.
	$(MAKE) test-environment & trap 'kill $$! 2>/dev/null || true' EXIT; $(MAKE) test-rust; wait $$!
	$(MAKE) test-python
	@echo "make test: all tests passed"

# Everything that the tests in Python install, and what pytest compiles, which each of its processes would do otherwise.
.PHONY: test-environment
test-environment: $(VENV)/.test $(VENV)/.java $(VENV)/.wheel $(VENV)/.plugin .build/lanes/connect/.installed
	$(PYTEST) --collect-only tests/python tests/parity tests/spark >/dev/null

.PHONY: test-rust
test-rust: | toolchain
	# The whole workspace, though the extension module has no Rust tests: so the dependencies get the same features
	# as in the wheel and are compiled once.
	RUST_TEST_THREADS=$(PROCESSES) $(CARGO) test --release --locked --quiet --workspace

.PHONY: test-python
test-python: $(VENV)/.wheel $(VENV)/.plugin $(VENV)/.test $(VENV)/.java
	$(PYTEST) --numprocesses=$(PROCESSES) --dist=worksteal tests/python tests/parity $(ARGS)
	$(PYTEST) --numprocesses=auto --dist=worksteal pennon $(ARGS)
	$(SPARK_ENV) $(PYTEST) --numprocesses=3 --dist=worksteal tests/spark $(ARGS)
	$(MAKE) lane-connect

# Other releases of PySpark, and Spark Connect, each in an environment of its own.
LANES := 3.5 4.0 connect

.PHONY: lanes
lanes: export PENNON_LONG_TESTS := 1
lanes: $(LANES:%=lane-%)
	@echo "make lanes: all tests passed with $(LANES)"

.PHONY: $(LANES:%=lane-%)
$(LANES:%=lane-%): lane-%: .build/lanes/%/.installed $(VENV)/.java
	SPARK_LOCAL_IP=127.0.0.1 JAVA_HOME="$$(cat $(VENV)/.java)" PENNON_LANE=$* .build/lanes/$*/bin/python -m pytest --quiet \
		tests/lanes $(ARGS)

.build/lanes/%/.installed: requirements/lanes/%.txt requirements/lanes/common.txt .build/quick/.built $(PLUGIN_SOURCES)
	test -x .build/lanes/$*/bin/python || $(PY) -m venv .build/lanes/$*
	.build/lanes/$*/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/lanes/$*.txt
	.build/lanes/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .build/quick/*.whl
	rm -rf spark-plugin/build
	.build/lanes/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--force-reinstall ./spark-plugin
	@touch $@

# Releases of pylance, each in an environment of its own: about 350 MB.
NEIGHBOURS := $(patsubst requirements/neighbours/%.txt,%,$(wildcard requirements/neighbours/[0-9]*.txt))

.PHONY: neighbours
neighbours: $(NEIGHBOURS:%=.build/neighbours/%/.installed) $(VENV)/.wheel $(VENV)/.test
	PYTHONPATH=tests $(PY) -m neighbours.run
	@echo "make neighbours: docs/readers.md says what was found"

.build/neighbours/%/.installed: requirements/neighbours/%.txt requirements/neighbours/common.txt requirements/neighbours/namespace.txt | $(VENV)/.demo
	test -x .build/neighbours/$*/bin/python || $(PY) -m venv --without-pip .build/neighbours/$*
	$(PY) -m pip --python .build/neighbours/$*/bin/python install --quiet --disable-pip-version-check --no-compile \
		-r requirements/neighbours/$*.txt
	@touch $@

# Random programs, histories and faults begin at this seed; `make test` begins at 0.
ifndef SEED
SEED := $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
endif

# Each part is a job of .github/workflows/test.yml, where none may take more than six hours.
NIGHTLY := nightly-commits nightly-tables nightly-crashes nightly-rust nightly-kills nightly-flips nightly-python nightly-spark

.PHONY: nightly
nightly: $(NIGHTLY) schedules lanes neighbours fuzz
	@echo "make nightly: all tests passed, from seed $(SEED)"

AGAIN = @echo "make $@: SEED=$(SEED)"
FAILED = { echo "make $@: failed with SEED=$(SEED)" >&2; exit 1; }

# A million histories of commits, of which none may violate an invariant.
.PHONY: nightly-commits
nightly-commits: | toolchain
	PENNON_HISTORIES=1000000 $(CARGO) test --release --locked --quiet --workspace --test commits

# Ten million steps of programs on whole tables, of which none may differ from the model; a step takes about 3 ms of a
# processor. Each planted fault is looked for from the first program on.
STEPS ?= 10000000

.PHONY: nightly-tables
nightly-tables: | toolchain
	$(AGAIN)
	PENNON_STEPS=$(STEPS) PENNON_PLANTED=1000 PENNON_SEED=$(SEED) $(CARGO) test --release --locked --quiet --workspace --test tables

# Crashes at any moment of several programs for each verb.
.PHONY: nightly-crashes
nightly-crashes: | toolchain
	$(AGAIN)
	PENNON_CRASHES=12 PENNON_SEED=$(SEED) $(CARGO) test --release --locked --quiet --workspace --test crashes

.PHONY: nightly-rust
nightly-rust: | toolchain
	$(AGAIN)
	PROPTEST_RNG_SEED=$(SEED) $(CARGO) test --release --locked --quiet --workspace

# Ten thousand writers that are killed, of which no acknowledged commit may be lost.
.PHONY: nightly-kills
nightly-kills: $(VENV)/.wheel $(VENV)/.test
	$(AGAIN)
	PENNON_KILLS=10000 LANCE_LOG=error PYTHONPATH=tests $(PY) -m soak.kills --seed=$(SEED)

# One flipped bit in each of ten thousand tables, of which none may read wrong rows.
.PHONY: nightly-flips
nightly-flips: $(VENV)/.wheel $(VENV)/.test
	$(AGAIN)
	LANCE_LOG=error PYTHONPATH=tests $(PY) -m soak.flips --tables=10000 --reference=1000 --seed=$(SEED)

# Some long tests take more than the time after which the process of a call that never returns is ended.
.PHONY: nightly-python
nightly-python: $(VENV)/.wheel $(VENV)/.plugin $(VENV)/.test $(VENV)/.java
	$(AGAIN)
	PENNON_LONG_TESTS=1 PENNON_SEED=$(SEED) $(PYTEST) --numprocesses=$(PROCESSES) --dist=worksteal --hypothesis-seed=$(SEED) \
		-o faulthandler_timeout=3600 tests/python tests/parity $(ARGS) || $(FAILED)
	$(PYTEST) --numprocesses=auto --dist=worksteal pennon $(ARGS)

.PHONY: nightly-spark
nightly-spark: $(VENV)/.wheel $(VENV)/.plugin $(VENV)/.test $(VENV)/.java
	$(AGAIN)
	PENNON_LONG_TESTS=1 PENNON_SEED=$(SEED) $(SPARK_ENV) $(PYTEST) --numprocesses=3 --dist=worksteal tests/spark $(ARGS) || $(FAILED)

SECONDS ?= 3600

.PHONY: soak
soak: $(VENV)/.wheel $(VENV)/.plugin $(VENV)/.test $(VENV)/.java
	for part in "indices" "tables" "tables --spark" "tables --store=s3 --faults=0.1"; do \
		$(SPARK_ENV) LANCE_LOG=error PYTHONPATH=tests $(PY) -m soak.$$part --seconds=$$(($(SECONDS) / 4)) --seed=$(SEED) || exit 1; done

# The encoding pool, the processors of a session and the turns of commits, with the primitives of shuttle in place of
# those of the standard library. A failure prints the schedule, which shuttle replays.
.PHONY: schedules
schedules: | toolchain
	# The whole workspace, so that the dependencies are those of the other tests.
	$(CARGO) test --release --locked --quiet --workspace --lib \
		--features pennon-datafile/shuttle,pennon-table/shuttle schedules

rustup = @command -v rustup >/dev/null || { echo "rustup is missing, which installs $(1): see https://rustup.rs" >&2; exit 1; }

# What calls code for particular processors, with their registers of 256 bits, in an interpreter that finds undefined
# behaviour. It is a thousand times slower, so properties are tried on few cases.
MIRI_TOOLCHAIN ?= nightly
MIRI := PROPTEST_CASES=4 MIRIFLAGS=-Zmiri-disable-isolation RUSTFLAGS="-C target-feature=+avx2,+fma,+bmi2,+popcnt" \
	cargo +$(MIRI_TOOLCHAIN) miri test --locked --quiet --target-dir .build/miri --lib

.PHONY: miri
miri: | toolchain
	$(call rustup,Miri)
	rustup component add --toolchain $(MIRI_TOOLCHAIN) miri rust-src
	$(MIRI) -p pennon-core rows::segment::rank
	$(MIRI) -p pennon-datafile bitpack::tests::agrees_with_the_verified_vectors
	$(MIRI) -p pennon-index vector::train::products
	$(MIRI) -p pennon-index vector::lane_sums

# Decoders are given bytes that coverage guides, for so many seconds each, and as many at a time as there are processors. The
# corpus stays in .build.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= manifest transaction message name row_ids row_versions row_sets deletions datafile pieces seal index vectors sql jobs options
FUZZ := .build/fuzz
# Bytes of an input: files have statistics from 64 KiB on.
FUZZ_LONGEST := 98304

.PHONY: fuzz
fuzz: | toolchain
	host=$$(rustc -vV | sed -n 's/^host: //p') && cd fuzz && \
		RUSTC_WRAPPER="$$PWD/instrument.sh" $(CARGO) build --release --locked --quiet --target "$$host" --target-dir ../$(FUZZ)/target && \
		ln -sfn "$$host/release" ../$(FUZZ)/target/built && ../$(FUZZ)/target/built/seeds ../$(FUZZ)/seeds
	$(MAKE) --no-print-directory --jobs=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) $(FUZZ_TARGETS:%=fuzz-%)
	@echo "make fuzz: nothing was found in $(FUZZ_SECONDS) seconds of each of $(words $(FUZZ_TARGETS)) targets"

.PHONY: $(FUZZ_TARGETS:%=fuzz-%)
$(FUZZ_TARGETS:%=fuzz-%): fuzz-%:
	mkdir -p $(FUZZ)/corpus/$* $(FUZZ)/found
	PENNON_FUZZ_TARGET=$* $(FUZZ)/target/built/decoders -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -max_len=$(FUZZ_LONGEST) \
		-verbosity=0 -print_funcs=0 -artifact_prefix=$(FUZZ)/found/$*- $(FUZZ)/corpus/$* $(FUZZ)/seeds/$* || \
		{ echo "make fuzz: $* failed, see $(FUZZ)/found" >&2; exit 1; }

# What the corpus and the seeds reach, by lines of the files that decode.
DECODERS := $(addprefix rust/core/src/,wire rows/segment deletion manifest) $(addprefix rust/datafile/src/,array_encoding/decode \
	container encodings layout legacy reader repdef statistics values) $(addprefix rust/index/src/,btree zones vector/index \
	vector/storage) rust/table/src/expr rust/table/src/jobs/json

.PHONY: fuzz-coverage
fuzz-coverage: | toolchain
	$(call rustup,LLVM's tools)
	rustup component add llvm-tools
	host=$$(rustc -vV | sed -n 's/^host: //p') && llvm="$$(rustc --print sysroot)/lib/rustlib/$$host/bin" && cd fuzz && \
		PENNON_COVERAGE=1 RUSTC_WRAPPER="$$PWD/instrument.sh" $(CARGO) build --release --locked --quiet --target "$$host" \
		--target-dir ../$(FUZZ)/coverage && cd .. && built=$(FUZZ)/coverage/$$host/release && $$built/seeds $(FUZZ)/seeds && \
		for target in $(FUZZ_TARGETS); do mkdir -p $(FUZZ)/corpus/$$target; \
			LLVM_PROFILE_FILE=$(FUZZ)/coverage/$$target.profraw PENNON_FUZZ_TARGET=$$target $$built/decoders -runs=0 -verbosity=0 \
			-max_len=$(FUZZ_LONGEST) $(FUZZ)/corpus/$$target $(FUZZ)/seeds/$$target || exit 1; done && \
		$$llvm/llvm-profdata merge -o $(FUZZ)/coverage/all.profdata $(FUZZ)/coverage/*.profraw && \
		$$llvm/llvm-cov report $$built/decoders --instr-profile=$(FUZZ)/coverage/all.profdata --show-region-summary=false \
		--show-branch-summary=false --ignore-filename-regex='/(tests|generated|encode|writer?|compute|build|shred)(/|\.rs)' $(DECODERS)

.PHONY: lint
lint: $(VENV)/.check
	$(PY) tests/glossary.py
	$(PY) tests/floors.py
	$(PY) tests/scan_signatures.py
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy
	MYPYPATH=python $(BIN)/mypy --config-file spark-plugin/pyproject.toml spark-plugin/pyspark_pennon

.PHONY: fmt
fmt: $(VENV)/.check
	$(CARGO) fmt --all
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

.PHONY: check
check: lint docs $(VENV)/.wheel
	$(CARGO) fmt --all --check
	# What they lock must follow the crates, though they are compiled by `make fuzz` and `make bench` alone.
	for workspace in fuzz benches/peers; do \
		$(CARGO) update --workspace --locked --quiet --manifest-path $$workspace/Cargo.toml || exit 1; done
	# In the profile of the tests, so that macros and build scripts are those that are compiled already.
	$(CARGO) clippy --release --workspace --all-targets --locked --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --workspace --no-deps --locked --quiet
	$(BIN)/stubtest --mypy-config-file pyproject.toml --allowlist tests/stubtest.allow pennon._native
	$(PY) requirements/third_party.py --check
	@echo "make check: all checks passed"

# cargo-deny is not installed by this: building it takes minutes. Without it licences are checked all the same, and
# advisories of crates are not.
DENY := 0.20.2

.PHONY: audit
audit: .build/audit/.installed | toolchain
	$(PY) requirements/third_party.py --check
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --all-features check; else \
		echo "make audit: no cargo-deny, so no advisories of crates: cargo install cargo-deny --locked --version $(DENY)" >&2; fi
	.build/audit/bin/pip-audit --strict --requirement requirements/constraints.txt --no-deps --disable-pip

.PHONY: bench
bench: export PYTHONPATH = $(CURDIR)/.build/shipped
bench: .build/shipped/.installed $(VENV)/.wheel $(VENV)/.plugin $(VENV)/.bench $(VENV)/.java
	for script in commits datafile large_values rows growth indices nearest vectors checksums object_store command_line start; do \
		$(PY) benches/python/$$script.py --results benches/results || exit 1; done
	for script in merge_large stream_pace; do JAVA_HOME="$$(cat $(VENV)/.java)" \
		$(PY) benches/spark/$$script.py --results benches/results || exit 1; done
	$(PY) benches/python/memory.py
	$(PY) requirements/try_wheel.py dist/*.whl --results benches/results
	$(PY) tests/pages.py --write
	$(CARGO) bench --profile dist --locked --workspace --exclude pennon-py --bench '*'
	cd benches/peers && PROTOC="$(CURDIR)/$(BIN)/protoc" $(CARGO) bench --locked --quiet --target-dir "$(PEERS)" > "$(PEERS).log"
	$(PY) benches/peers/table.py "$(PEERS)/criterion"
	cd benches/peers && PROTOC="$(CURDIR)/$(BIN)/protoc" $(CARGO) run --release --locked --quiet --target-dir "$(PEERS)"

# Writes benches/results, then the tables and the plot of docs/performance.md. The wheel that is shipped is measured.
.PHONY: figures
figures: .build/figures/.installed $(VENV)/.wheel $(VENV)/.test
	.build/figures/bin/python benches/python/figures.py $(ARGS)
	$(PY) tests/pages.py --write

# Delta, Iceberg and Parquet, whose jars Spark fetches.
.PHONY: figures-spark
figures-spark: .build/figures-spark/.installed $(VENV)/.wheel $(VENV)/.test $(VENV)/.java
	for rows in 5000000 20000000; do JAVA_HOME="$$(cat $(VENV)/.java)" .build/figures-spark/bin/python benches/spark/verbs.py \
		--rows $$rows --results benches/results $(ARGS) || exit 1; done
	$(PY) tests/pages.py --write

# Broken links and references are errors. It reads the sources and needs no build.
.PHONY: docs
docs: .build/docs/.installed
	NO_MKDOCS_2_WARNING=1 .build/docs/bin/python -m mkdocs build --strict --quiet
	@echo "open .build/site/index.html"

.PHONY: docs-browser
docs-browser: docs .build/docs/.browser
	.build/docs/bin/python tests/browser.py

.PHONY: docs-rust
docs-rust: | toolchain
	$(CARGO) doc --release --workspace --no-deps --locked
	@echo "open target/doc/pennon_table/index.html"

.PHONY: clean
clean:
	rm -rf $(VENV) .build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	rm -rf spark-plugin/build spark-plugin/*.egg-info python/pennon/_native.abi3.so
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

$(VENV)/.zig: requirements/wheels.txt requirements/wheel.txt requirements/constraints.txt | $(VENV)/.made
	$(PIP) -r requirements/wheels.txt
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

.build/audit/.installed: requirements/audit.txt | $(VENV)/.made
	$(PY) -m venv .build/audit
	.build/audit/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/audit.txt
	@touch $@

.build/docs/.installed: requirements/docs.txt requirements/constraints.txt | $(VENV)/.made
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' || { echo "the site needs Python 3.11.5 or later; name one with PYTHON=..." >&2; exit 1; }
	$(PY) -m venv .build/docs
	.build/docs/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@touch $@

.build/figures/.installed: benches/python/requirements.txt requirements/constraints.txt dist/.built | $(VENV)/.made
	rm -rf .build/figures
	$(PY) -m venv .build/figures
	.build/figures/bin/python -m pip install --quiet --disable-pip-version-check -r benches/python/requirements.txt
	.build/figures/bin/python -m pip install --quiet --disable-pip-version-check --no-deps dist/*.whl
	@touch $@

.build/figures-spark/.installed: benches/spark/requirements.txt dist/.built $(PLUGIN_SOURCES) | $(VENV)/.made
	rm -rf .build/figures-spark
	$(PY) -m venv .build/figures-spark
	.build/figures-spark/bin/python -m pip install --quiet --disable-pip-version-check -r benches/spark/requirements.txt
	.build/figures-spark/bin/python -m pip install --quiet --disable-pip-version-check --no-deps dist/*.whl ./spark-plugin
	@touch $@

.build/docs/.browser: requirements/browser.txt requirements/constraints.txt | .build/docs/.installed
	.build/docs/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/browser.txt
	@touch $@

$(VENV)/.java: requirements/java_home.py | $(VENV)/.demo
	$(PY) requirements/java_home.py > $@

# One wheel serves every supported version of Python.
dist/.built: $(WHEEL_SOURCES) | toolchain $(VENV)/.maturin
	rm -rf dist
	$(BIN)/maturin build --profile dist --locked --quiet --interpreter $(PY) --out dist
	$(PY) requirements/neutral_sbom.py dist/*.whl
	@touch $@

.build/shipped/.installed: dist/.built | $(VENV)/.demo
	rm -rf .build/shipped
	$(PIP) --no-deps --target .build/shipped dist/*.whl
	@touch $@

.build/quick/.built: $(WHEEL_SOURCES) | toolchain $(VENV)/.maturin
	rm -rf .build/quick
	$(BIN)/maturin build --profile release --locked --quiet --interpreter $(PY) --out .build/quick
	$(PY) requirements/neutral_sbom.py .build/quick/*.whl
	@touch $@

$(VENV)/.wheel: .build/quick/.built | $(VENV)/.demo
	$(PIP) --no-deps --force-reinstall .build/quick/*.whl
	@rm -f $(VENV)/.develop
	@touch $@

.PHONY: prebuilt
prebuilt: | $(VENV)/.demo
	@test -f "$(PREBUILT)" || { echo "PREBUILT is $(PREBUILT), expected the path of a wheel" >&2; exit 1; }
	$(PIP) --no-deps --force-reinstall "$(PREBUILT)"
	@rm -f $(VENV)/.wheel $(VENV)/.develop

$(VENV)/.plugin: $(PLUGIN_SOURCES) | $(VENV)/.demo
	# What an earlier build left would be packed, too.
	rm -rf spark-plugin/build
	$(PIP) --no-deps --no-build-isolation --force-reinstall ./spark-plugin
	@rm -f $(VENV)/.develop
	@touch $@

# The module is built into python/pennon, with the profile of the quick wheel; this and the wheel replace each other.
$(VENV)/.develop: $(RUST_SOURCES) pyproject.toml spark-plugin/pyproject.toml | toolchain $(VENV)/.maturin $(VENV)/.test
	VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --profile release --locked --quiet
	$(PIP) --no-deps --no-build-isolation --editable ./spark-plugin
	@rm -f $(VENV)/.wheel $(VENV)/.plugin
	@touch $@
