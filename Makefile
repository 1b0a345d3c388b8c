# Each command sets itself up: a virtual environment in .venv, and in it whatever it needs.
#
#   make demo    profile two small programs and show where their time went
#   make test    everything that must hold before a change goes in
#   make test-python, test-paddle, test-plain, test-js, test-native, test-tsan
#                parts of it: with PyTorch, with Paddle, with neither; the report's JavaScript; C++
#                under sanitizers, and its threads under ThreadSanitizer
#   make test-slow
#                what else CI runs: stress tests, hostile names in every page, and in test-sanitized
#                the extension module under sanitizers
#   make truth   programs that print their own truth, and how much of it the answer says; TRUTH=... are
#                options of tests/truth, such as --busy 2 and names of programs
#   make test-pythons
#                the parts that need no framework, with the other Pythons that are at hand
#   make wheels  a wheel for each Python at hand, in dist/, and each tried in an empty environment
#                without a compiler
#   make check-programs
#                whether model programs do the same bare and recorded
#   make check-layouts
#                whether the bridges in the wheel suit each release of torch that they serve
#   make test-gpu, bench-gpu
#                where there is an NVIDIA GPU, with the python3 that is on the path
#   make fuzz    damage traces in every way for FUZZ_SECONDS each (60), and make every file operation
#                fail once
#   make coverage, coverage-native
#                the share of lines that the tests run: of the package, and of the C++ core
#   make lint    style and types only
#   make format  bring the code into shape
#   make bench   side by side with torch.profiler; bench-paddle with paddle.profiler; bench-report
#                a report of a million events
#   make bench-default
#                what stepscope run with no option adds to a training step
#   make bench-sampler
#                what sampling costs, and how near its shares come, beside other samplers
#   make bench-diff
#                false alarms of stepscope diff, and planted slowdowns that it finds; takes an hour
#   make bench-answers
#                whether the planted problems of the bottleneck suite are named; ANSWERS=... are
#                options of benchmarks/answers.py
#   make bench-traces
#                whether the problems of made GPU traces are named, and of real ones in a folder:
#                TRACES="--real FOLDER"
#   make bench-stragglers
#                jobs of 4, 8 and 16 ranks with one that is late, recorded into build/stragglers: are
#                rank and cause named?
#   make stress-signals, stress-runs, stress-cache
#                400 signals at random moments of stepscope run; 64 runs that start together; another
#                user who exchanges the cache of bridges, as root only
#   make stress-kill, stress-ring, stress-slow_steps
#                200 programs killed at random moments: what their traces miss; a ring of ten minutes;
#                50 slow steps in 10,000
#   make clean   remove all that make has made

# The first Python that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
TORCH ?= torch==2.13.0

# Paddle's newest release is for x86-64 alone: elsewhere its tests run with the last one there is.
PADDLE ?= paddlepaddle==$(if $(filter x86_64,$(shell uname -m)),3.3.1,3.2.2)
# How many files are compiled at a time, and how many tests run: a test waits a third of its time,
# for programs that it started.
JOBS ?= 2
WORKERS ?= 3

# One virtual environment with PyTorch and everything else, one with Paddle and no PyTorch (two
# frameworks in a process are two OpenMP runtimes), and one with neither.
VENV := .venv
VENVS := $(VENV) $(VENV)-paddle $(VENV)-plain
BIN := $(VENV)/bin
pip_of = $(1)/bin/python -m pip --quiet --disable-pip-version-check
PIP := $(call pip_of,$(VENV))
# Where a step is done is written down as an empty file, so that it is not done again.
DONE := $(VENV)/done

NATIVE := $(shell find native src/stepscope -name '*.cpp' -o -name '*.h')
PACKAGE := pyproject.toml CMakeLists.txt README.md LICENSE $(filter-out native/tests/%,$(NATIVE)) \
	$(shell find src -name '*.py' -o -name '*.pyi' -o -name '*.pth' -o -name py.typed -o -path '*/static/*')
# Built once, installed into each environment.
WHEEL := build/wheel

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench bench-paddle bench-report bench-answers bench-traces bench-stragglers bench-default bench-sampler \
	bench-diff \
	bench-gpu clean lint-python lint-native lint-js types test-js test-python test-slow test-slow-python truth \
	test-paddle test-plain test-gpu \
	configure-sanitized build-sanitized test-native test-sanitized test-tsan test-pythons wheels check-layouts check-programs fuzz \
	coverage coverage-native
.DELETE_ON_ERROR:
.SUFFIXES:

help:
	@sed -n 's/^#   //p' Makefile

# --- what the commands stand on

$(VENVS:%=%/done/venv): %/done/venv:
	$(if $(PYTHON),,$(error Python 3.11 or newer is needed; name it with PYTHON=...))
	$(PYTHON) -m venv $*
	$(call pip_of,$*) install --upgrade 'pip>=25.1'
	mkdir -p $*/done && touch $@

# Out of torch's wheels, 10 MB a release; no more than the bridges in the wheel depends on them. A
# bridge takes half a minute to compile: the demo and the tests have the one to the operators of the
# torch that is installed here, the wheels and the slow tests all of them.
BRIDGES ?= $(lastword $(subst ==, ,$(TORCH)))
HEADERS := build/torch-headers/done-$(BRIDGES)
ALL_HEADERS := build/torch-headers/done-all

build/torch-headers/done-%: tools/torch_headers.py src/stepscope/frameworks/torch/bridge/families.py \
		$(DONE)/venv
	@echo '--- fetching headers of torch: $*'
	$(BIN)/python tools/torch_headers.py --for $* || \
		echo '--- without some of them: the wheel has no bridge to those releases of torch'
	mkdir -p $(@D) && touch $@

# Headers are precompiled, and files compiled together, where it has to be quick: the wheel of the
# slow tests is built as the users' is, and shows a missing #include.
QUICK = $(if $(filter all,$(BRIDGES)),OFF,ON)
WHEEL_OPTIONS = WERROR=ON PRECOMPILE=$(QUICK) UNITY=$(QUICK)

$(WHEEL)/done: $(DONE)/venv $(HEADERS) $(PACKAGE)
	@echo '--- building stepscope; this takes a minute'
	rm -rf $(WHEEL)
	$(PIP) wheel --no-deps --wheel-dir $(WHEEL) \
		$(WHEEL_OPTIONS:%=--config-settings cmake.define.STEPSCOPE_%) .
	touch $@

# Twice: a wheel of the same version as before is installed only by force, and what it depends on
# is not to be.
$(VENVS:%=%/done/package): %/done/package: %/done/venv $(WHEEL)/done
	$(call pip_of,$*) install --force-reinstall --no-deps $(WHEEL)/*.whl
	$(call pip_of,$*) install $(WHEEL)/*.whl
	touch $@

$(DONE)/torch: $(DONE)/venv
	@echo '--- installing $(TORCH); the first time takes a while'
	$(PIP) install '$(TORCH)'
	touch $@

$(DONE)/lint: pyproject.toml $(DONE)/venv
	$(PIP) install --group lint
	touch $@

$(DONE)/test: pyproject.toml $(DONE)/venv
	$(PIP) install --group test cmake nanobind ninja
	touch $@

$(VENV)-paddle/done/test: pyproject.toml $(VENV)-paddle/done/venv
	@echo '--- installing $(PADDLE); the first time takes a while'
	$(call pip_of,$(VENV)-paddle) install --group test --group paddle '$(PADDLE)'
	touch $@

$(VENV)-plain/done/test: pyproject.toml $(VENV)-plain/done/venv
	$(call pip_of,$(VENV)-plain) install --group plain --group servers
	touch $@

# After torch: none of them may bring another one.
$(DONE)/frameworks: pyproject.toml $(DONE)/torch
	@echo '--- installing what the tests put Stepscope beside: Lightning, TensorBoard, DuckDB, ...'
	$(PIP) install --group frameworks
	touch $@

# Pages are tested in Debian's Chromium. Where there is none and none can be installed, those tests
# are skipped, and say so.
$(DONE)/browser: $(DONE)/venv
	@if command -v chromium >/dev/null; then touch $@; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo '--- installing chromium'; \
		apt-get update -qq && apt-get install -y -qq chromium >/dev/null && touch $@; \
	fi || true
	@[ -e $@ ] || echo '--- no chromium here: the tests of pages will be skipped'

# The report's JavaScript is checked with Node. Where there is none and none can be installed, those
# checks are left out, and say so.
NODE_MODULES := node_modules/done

$(NODE_MODULES): package.json package-lock.json
	@command -v npm >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { \
		echo '--- installing nodejs'; \
		apt-get update -qq && apt-get install -y -qq nodejs npm >/dev/null; } || true
	@if command -v npm >/dev/null; then \
		npm ci --silent --no-audit --no-fund && touch $@; \
	else echo '--- no node here: the JavaScript is NOT checked'; fi

$(DONE)/coverage: pyproject.toml $(DONE)/venv
	$(PIP) install --group coverage
	touch $@

$(DONE)/bench: pyproject.toml $(DONE)/venv
	$(PIP) install --group bench
	touch $@

# --- make demo

DEMO := demo-output

demo: $(DONE)/torch $(DONE)/package
	@rm -rf $(DEMO) && mkdir $(DEMO)
	@echo '--- a ResNet-18 in PyTorch: $(BIN)/stepscope run examples/train_resnet.py'
	@$(BIN)/stepscope run -o $(DEMO)/train_resnet.stepscope examples/train_resnet.py
	@echo
	@echo '--- NumPy only: $(BIN)/stepscope run examples/numpy_pipeline.py'
	@$(BIN)/stepscope run -o $(DEMO)/numpy_pipeline.stepscope examples/numpy_pipeline.py

# --- make test

TEST_PARTS := test-js test-python test-paddle test-plain

# What the parts download, in the order in which they need it.
DOWNLOADS := $(addprefix $(DONE)/, lint test torch frameworks browser) $(NODE_MODULES)
LATER := $(foreach venv,$(VENV)-paddle $(VENV)-plain,$(venv)/done/test $(venv)/done/package)

# All parts, also after one has failed; what failed is named at the end. Packages are downloaded
# while the wheel and the C++ tests are compiled, those of the other environments while this one is
# tested; the linters and the type checker run beside the tests.
test: $(DONE)/venv
	@mkdir -p build; \
	$(MAKE) --silent $(DOWNLOADS) >build/downloads.log 2>&1 & downloads=$$!; \
	$(MAKE) --no-print-directory $(WHEEL)/done; \
	while [ ! -e $(DONE)/test ] && kill -0 $$downloads 2>/dev/null; do sleep 1; done; \
	failed=; for part in test-native test-tsan; do \
		$(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; \
	wait $$downloads || cat build/downloads.log; \
	$(MAKE) --no-print-directory $(DONE)/package; \
	$(MAKE) --no-print-directory lint >build/lint.log 2>&1 & lint=$$!; \
	$(MAKE) --silent $(LATER) >build/later.log 2>&1 & later=$$!; \
	for part in $(TEST_PARTS); do \
		[ $$part != test-paddle ] || wait $$later || cat build/later.log; \
		$(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; \
	wait $$lint || failed="$$failed lint"; cat build/lint.log; \
	if [ -n "$$failed" ]; then echo "--- failed:$$failed"; exit 1; fi
	@echo '--- all tests passed'

# Installed one after the other, checked side by side.
lint: $(DONE)/lint $(DONE)/test $(DONE)/frameworks $(DONE)/package $(NODE_MODULES)
	@$(MAKE) --no-print-directory --jobs $(JOBS) --output-sync lint-python lint-native lint-js types

lint-python: $(DONE)/lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint-native: $(DONE)/lint
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)

lint-js: $(NODE_MODULES)
	@[ ! -e $(NODE_MODULES) ] || npm run --silent types

format: $(DONE)/lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(NATIVE)

# The type checker reads what the integrations import: pytest, IPython.
types: $(DONE)/lint $(DONE)/test $(DONE)/frameworks $(DONE)/package
	$(BIN)/mypy

test-js: $(NODE_MODULES)
	@[ ! -e $(NODE_MODULES) ] || npm test --silent

# Some tests at a time. A process of its own a test worker: what one does to torch, to sys or to the
# environment, the other does not see.
PYTEST := -m pytest --numprocesses $(WORKERS) --dist worksteal

WITH_TORCH := $(DONE)/test $(DONE)/torch $(DONE)/frameworks $(DONE)/browser $(DONE)/package
NOT_WITH_TORCH := $(addprefix --ignore tests/, frameworks/paddle/with_paddle conformance/paddle \
	frameworks/cuda/with_gpu)

test-python: $(WITH_TORCH)
	$(BIN)/python $(PYTEST) -m 'not slow' $(NOT_WITH_TORCH)

test-slow:
	$(MAKE) --no-print-directory BRIDGES=all test-slow-python test-sanitized

test-slow-python: $(WITH_TORCH)
	$(BIN)/python $(PYTEST) -m slow $(NOT_WITH_TORCH)

# Beside two busy processes, too: what the programs know of themselves holds there as well.
truth: $(WITH_TORCH) $(VENV)-paddle/done/test $(VENV)-paddle/done/package
	$(BIN)/python -m tests.truth --paddle-python $(VENV)-paddle/bin/python $(TRUTH)
	$(BIN)/python -m tests.truth --paddle-python $(VENV)-paddle/bin/python --busy 2 $(TRUTH)

# The wheel that was tested with PyTorch, in an environment with Paddle alone ...
test-paddle: $(VENV)-paddle/done/test $(VENV)-paddle/done/package
	$(VENV)-paddle/bin/python $(PYTEST) tests/frameworks/paddle tests/conformance/paddle \
		tests/migrate/test_migrate_runs.py::test_a_torch_training_program_runs_with_paddle

# ... and in one with no framework: ranges, reading, writing and the dialects need none.
PLAIN_TESTS := tests/frameworks/paddle/dialect tests/test_import.py tests/test_layers.py \
	$(addprefix tests/trace/test_, join.py slices.py trace_store.py) \
	$(addprefix tests/record/test_, module_calls.py range_names.py ranges.py schedules.py \
		session.py) \
	$(addprefix tests/frameworks/python/test_, itt.py nvtx.py requests.py \
		requests_of_libraries.py tasks.py) \
	$(addprefix tests/formats/, chrome/test_export_chrome.py test_records.py) \
	tests/analysis/host/test_averages.py tests/analysis/steps/test_steps.py tests/cli/test_cli_run.py

test-plain: $(VENV)-plain/done/test $(VENV)-plain/done/package
	$(VENV)-plain/bin/python $(PYTEST) -m 'not slow' $(PLAIN_TESTS)

stress-%: $(DONE)/torch $(DONE)/package
	$(BIN)/python tools/stress_$*.py

test-pythons: $(DONE)/venv $(HEADERS)
	$(BIN)/python tools/test_pythons.py $(PLAIN_TESTS)

# On a machine with an NVIDIA GPU, in whatever environment has a PyTorch with CUDA and Stepscope.
test-gpu:
	python3 -m pytest tests/frameworks/cuda/with_gpu

# The C++ tests are written with doctest, of which Debian has a package for all processors. Where it
# is not installed and cannot be fetched, they are left out, and cmake says so.
DOCTEST := build/doctest/done

$(DOCTEST):
	@mkdir -p $(@D)
	@[ -e /usr/include/doctest/doctest.h ] || ! command -v apt-get >/dev/null || { \
		echo '--- fetching doctest-dev'; cd $(@D) && \
		{ apt-get download -qq doctest-dev || { apt-get update -qq && apt-get download -qq doctest-dev; } } \
		&& dpkg -x doctest-dev_*.deb . ; } 2>/dev/null || true
	@[ ! -e /usr/include/doctest/doctest.h ] && [ ! -e $(@D)/usr/include/doctest/doctest.h ] || touch $@

# The C++ core on its own, and then the extension module, under the address and
# undefined-behaviour sanitizers.

SANITIZED := build/sanitized
TOOLS = PATH="$(CURDIR)/$(BIN):$$PATH"

CMAKE = $(TOOLS) cmake -S . -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Debug \
	-DCMAKE_INCLUDE_PATH="$(CURDIR)/build/doctest/usr/include" -DSTEPSCOPE_NATIVE_TESTS=ON \
	-DSTEPSCOPE_WERROR=ON -DSTEPSCOPE_PRECOMPILE=ON -DSTEPSCOPE_UNITY=ON

configure-sanitized: $(DONE)/test $(DOCTEST)
	$(CMAKE) -B $(SANITIZED) -DSTEPSCOPE_SANITIZE=ON -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python"

build-sanitized: configure-sanitized
	$(TOOLS) cmake --build $(SANITIZED) -j $(JOBS)

test-native: configure-sanitized
	$(TOOLS) cmake --build $(SANITIZED) -j $(JOBS) --target native/tests/all
	$(TOOLS) ctest --test-dir $(SANITIZED) --output-on-failure -j $(JOBS)

# The lock-free core with acquire and release in the place of the kernel's barriers.
test-tsan: $(DONE)/test $(DOCTEST)
	$(CMAKE) -B build/tsan -DSTEPSCOPE_TSAN=ON
	$(TOOLS) cmake --build build/tsan -j $(JOBS)
	$(TOOLS) ctest --test-dir build/tsan --output-on-failure -j $(JOBS)

SANITIZED_TESTS := $(addprefix tests/record/test_, endings.py ranges.py record_memory.py \
	record_shapes.py record_stacks.py recorder.py robustness.py threads.py forks.py) \
	$(addprefix tests/formats/, $(addprefix chrome/test_, export_chrome.py read_chrome.py) \
		$(addprefix test_, hostile_names.py read_damaged.py)) \
	$(addprefix tests/frameworks/python/test_, python_calls.py python_calls_beside.py \
		sampler.py sampler_endings.py sampler_hostile.py sampler_states.py) \
	tests/trace/test_slices.py \
	tests/frameworks/torch/test_stacks_of_operators.py

# A test that was renamed is missed at once, by every target: pytest says so only after the build.
MISSING_TESTS := $(strip $(foreach test,$(PLAIN_TESTS) $(SANITIZED_TESTS),$(if \
	$(wildcard $(test)),,$(test))))
ifneq ($(MISSING_TESTS),)
$(error $(MISSING_TESTS) is named here, and does not exist: name what has taken its place)
endif

# Both before Python itself: the sanitizer must see every allocation, and every C++ exception. It
# keeps freed memory for a while: what a process grows by says nothing then. Real traces are read in
# test_export_chrome.py: what Python then compares arg by arg needs no sanitizer, nor do the
# formats that Polars and Python write.
SANITIZED_KEEPS := not grow_the_process and not kept_exactly and not command_line and not registered \
	and not saved_folder and not modules_with
PRELOAD = $(shell $${CXX:-c++} -print-file-name=libasan.so) \
	$(shell $${CXX:-c++} -print-file-name=libstdc++.so)

test-sanitized: build-sanitized $(DONE)/torch $(DONE)/package
	rm -rf $(SANITIZED)/package && mkdir $(SANITIZED)/package
	cp -r src/stepscope $(SANITIZED)/package/
	cp -r native/include $(SANITIZED)/package/stepscope/
	rm -f $(SANITIZED)/package/stepscope/_native*.so
	cp $(SANITIZED)/_native*.so $(SANITIZED)/package/stepscope/
	LD_PRELOAD="$(strip $(PRELOAD))" ASAN_OPTIONS=detect_leaks=0 \
		UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH="$(CURDIR)/$(SANITIZED)/package" \
		$(BIN)/python $(PYTEST) --capture=sys \
		-k '$(SANITIZED_KEEPS)' $(SANITIZED_TESTS)

# --- make coverage

# What the tests run in their own process: coverage in a recorded program would be part of what is
# recorded. So the tests that record are left out, and those of the sampler and of Python calls,
# which see the tracer as the program's.
COVERED_TESTS := $(addprefix tests/, analysis formats gate history job migrate query report trace view) \
	tests/frameworks/torch/dialect tests/frameworks/paddle/dialect
COVERAGE_SECONDS ?= 1200

# Tracing makes tests slow, and `make test` has judged them: here a failure or the end of the time
# costs a part of the figure, and no more.
coverage: $(WITH_TORCH) $(DONE)/coverage
	rm -f .coverage
	-timeout --signal INT $(COVERAGE_SECONDS) $(BIN)/python $(PYTEST) --quiet -m 'not slow' \
		--cov stepscope --cov-report= $(COVERED_TESTS)
	@echo "--- line coverage of the package: $$($(BIN)/coverage report --format total) %"

# The native tests, without the bindings and what only a Python program or a GPU reaches.
coverage-native: $(DONE)/test $(DONE)/coverage $(DOCTEST)
	$(CMAKE) -B build/coverage -DSTEPSCOPE_SANITIZE=ON \
		-DCMAKE_CXX_FLAGS='--coverage -fprofile-update=atomic'
	$(TOOLS) cmake --build build/coverage -j $(JOBS) --target native/tests/all
	find build/coverage -name '*.gcda' -delete
	$(TOOLS) ctest --test-dir build/coverage --output-on-failure -j $(JOBS)
	@cd build/coverage && "$(CURDIR)/$(BIN)/gcovr" --root "$(CURDIR)" \
		--filter "$(CURDIR)/native/" --exclude "$(CURDIR)/native/tests/" \
		--gcov-ignore-errors=no_working_dir_found \
		--gcov-ignore-parse-errors=negative_hits.warn_once_per_file --output lines.txt . && \
		sed -n 's/^TOTAL.* /--- line coverage of the C++ core: /p' lines.txt

# --- make fuzz

FUZZ_SECONDS ?= 60
FUZZ_SEED ?= $(shell date +%j)

# Another seed every day; a case that fails is named, and runs again with --seed and --case.
fuzz: $(DONE)/test $(DONE)/package
	$(BIN)/python tools/fuzz.py --folders --seed $(FUZZ_SEED) --seconds $(FUZZ_SECONDS)
	$(BIN)/python tools/fuzz.py --files --seed $(FUZZ_SEED) --seconds $(FUZZ_SECONDS)
	$(BIN)/python tools/fuzz.py --foreign --seed $(FUZZ_SEED) --seconds $(FUZZ_SECONDS)
	$(BIN)/python tools/fail_files.py

# --- make wheels

wheels: $(DONE)/venv $(DONE)/torch $(ALL_HEADERS)
	$(BIN)/python tools/make_wheels.py --torch $(wildcard $(VENV)/lib/python*/site-packages)

check-layouts: $(DONE)/test $(ALL_HEADERS)
	$(BIN)/python tools/torch_layouts.py

# Minutes long: programs with Paddle run in its own environment.
check-programs: $(DONE)/test $(DONE)/torch $(DONE)/frameworks $(DONE)/package \
		$(VENV)-paddle/done/test $(VENV)-paddle/done/package
	$(BIN)/python tools/compare_programs.py
	$(VENV)-paddle/bin/python tools/compare_programs.py

# --- make bench

bench: $(DONE)/bench $(DONE)/torch $(DONE)/package
	$(BIN)/python benchmarks/run.py

bench-paddle: $(VENV)-paddle/done/test $(VENV)-paddle/done/package
	$(VENV)-paddle/bin/python benchmarks/run.py --group paddle

bench-report: $(DONE)/test $(DONE)/browser $(DONE)/package
	$(BIN)/python benchmarks/run.py --group report

# Programs with Paddle run in its own environment.
bench-answers: $(DONE)/test $(DONE)/torch $(DONE)/frameworks $(DONE)/package \
		$(VENV)-paddle/done/test $(VENV)-paddle/done/package
	$(BIN)/python benchmarks/answers.py --paddle-python $(VENV)-paddle/bin/python $(ANSWERS)

bench-traces: $(DONE)/test $(DONE)/package
	$(BIN)/python benchmarks/graded_traces.py $(TRACES)

bench-stragglers: $(DONE)/test $(DONE)/torch $(DONE)/package
	$(BIN)/python benchmarks/stragglers.py build/stragglers --ranks 4 8 16

bench-default: $(DONE)/bench $(DONE)/torch $(DONE)/package
	$(BIN)/python benchmarks/run.py --group default

# Beside py-spy, pyinstrument and austin where they are installed.
bench-sampler: $(DONE)/bench $(DONE)/package
	$(BIN)/python benchmarks/run.py --group sampler

# DIFF=... are options of benchmarks/diff.py.
bench-diff: $(DONE)/bench $(DONE)/torch $(DONE)/package
	$(BIN)/python benchmarks/diff.py $(DIFF)

# As test-gpu, in whatever environment there is.
bench-gpu:
	python3 benchmarks/run.py --group cuda

clean:
	rm -rf $(VENVS) $(VENV)-3.* build dist node_modules $(DEMO) .mypy_cache .ruff_cache .pytest_cache .hypothesis
