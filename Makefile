# Each command sets itself up: a virtual environment in .venv, and in it whatever it needs.
#
#   make demo    profile two small programs and show where their time went
#   make test    everything that must hold before a change goes in
#   make lint    style and types only
#   make format  bring the code into shape
#   make bench   side by side with torch.profiler
#   make clean   remove all that make has made

# The first Python that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
TORCH ?= torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Where a step is done is written down as an empty file, so that it is not done again.
DONE := $(VENV)/done

NATIVE := $(shell find native src/stepscope/bridge -name '*.cpp' -o -name '*.h')
PACKAGE := pyproject.toml CMakeLists.txt README.md LICENSE $(filter-out native/tests/%,$(NATIVE)) \
	$(shell find src -name '*.py' -o -name '*.pyi' -o -name py.typed -o -path '*/static/*')

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench clean lint-python lint-native types test-native test-python \
	test-sanitized
.DELETE_ON_ERROR:
.SUFFIXES:

help:
	@sed -n 's/^#   //p' Makefile

# --- what the commands stand on

$(DONE)/venv:
	$(if $(PYTHON),,$(error Python 3.11 or newer is needed; name it with PYTHON=...))
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	mkdir -p $(DONE) && touch $@

$(DONE)/torch: $(DONE)/venv
	@echo '--- installing $(TORCH); the first time takes a while'
	$(PIP) install '$(TORCH)'
	touch $@

$(DONE)/package: $(DONE)/venv $(PACKAGE)
	@echo '--- building stepscope and installing it; this takes a minute'
	$(PIP) install .
	touch $@

$(DONE)/lint: pyproject.toml $(DONE)/venv
	$(PIP) install --group lint
	touch $@

$(DONE)/test: pyproject.toml $(DONE)/venv
	$(PIP) install --group test cmake nanobind ninja
	touch $@

# After torch: none of them may bring another one.
$(DONE)/frameworks: pyproject.toml $(DONE)/torch
	@echo '--- installing what the tests put Stepscope beside: Lightning, Accelerate, TensorBoard'
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

test: lint test-native test-python test-sanitized
	@echo '--- all tests passed'

lint: lint-python lint-native types

lint-python: $(DONE)/lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint-native: $(DONE)/lint
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)

format: $(DONE)/lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(NATIVE)

types: $(DONE)/lint $(DONE)/package
	$(BIN)/mypy

test-python: $(DONE)/test $(DONE)/torch $(DONE)/frameworks $(DONE)/browser $(DONE)/package
	$(BIN)/python -m pytest

# The C++ core on its own, and then the extension module, under the address and
# undefined-behaviour sanitizers.

CMAKE = PATH="$(CURDIR)/$(BIN):$$PATH" cmake
JOBS ?= 2

test-native: $(DONE)/test
	$(CMAKE) -S . -B build/native-tests -G Ninja --log-level=WARNING \
		-DCMAKE_BUILD_TYPE=Debug -DSTEPSCOPE_NATIVE_TESTS=ON -DSTEPSCOPE_SANITIZE=ON
	$(CMAKE) --build build/native-tests -j $(JOBS)
	PATH="$(CURDIR)/$(BIN):$$PATH" ctest --test-dir build/native-tests --output-on-failure

SANITIZED := build/sanitized
SANITIZED_TESTS := $(addprefix tests/, test_recorder.py test_ranges.py \
	test_threads_and_forks.py test_read_chrome.py test_read_damaged.py test_export_chrome.py \
	test_record_shapes.py test_record_memory.py test_record_stacks.py test_python_calls.py \
	test_slices.py test_robustness.py test_hostile_names.py)
# Both before Python itself: the sanitizer must see every allocation, and every C++ exception. It
# keeps freed memory for a while: what a process grows by says nothing then.
PRELOAD = $(shell $${CXX:-c++} -print-file-name=libasan.so) \
	$(shell $${CXX:-c++} -print-file-name=libstdc++.so)

test-sanitized: $(DONE)/test $(DONE)/torch $(DONE)/package
	$(CMAKE) -S . -B $(SANITIZED) -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Debug \
		-DSTEPSCOPE_SANITIZE=ON -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python"
	$(CMAKE) --build $(SANITIZED) -j $(JOBS)
	rm -rf $(SANITIZED)/package && mkdir $(SANITIZED)/package
	cp -r src/stepscope $(SANITIZED)/package/
	rm -f $(SANITIZED)/package/stepscope/_native*.so
	cp $(SANITIZED)/_native*.so $(SANITIZED)/package/stepscope/
	LD_PRELOAD="$(strip $(PRELOAD))" ASAN_OPTIONS=detect_leaks=0 \
		UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH="$(CURDIR)/$(SANITIZED)/package" \
		$(BIN)/python -m pytest --capture=sys -k 'not grow_the_process' $(SANITIZED_TESTS)

# --- make bench

bench: $(DONE)/bench $(DONE)/torch $(DONE)/package
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) build $(DEMO) .mypy_cache .ruff_cache .pytest_cache .hypothesis
