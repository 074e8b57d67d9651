# The commands: `make demo` runs the main job on real input, `make platform-demo` a model's way into production and back, `make test` runs every test and tells the slowest; on a machine with a
# GPU, `make test-gpu` runs the operators, ONNX's suite and the models on it.
# Each does the whole set-up first, which takes no time when there is nothing to do.

PRESET ?= dev
BUILD := build/$(PRESET)
# Files that are compiled together in a folder that does not exist yet; `make build` compiles each by itself, for who changes them.
BATCH ?= 12

.PHONY: demo platform-demo test test-gpu test-cross docs setup setup-torch setup-tests build wheel static image

demo: $(BUILD)/build.ninja
	@echo "demo: building the tool and the runtime library" >&2
	@cmake --build $(BUILD) --target tenon tenon_runtime
	@.venv/bin/python scripts/demo.py --tenon $(BUILD)/bin/tenon

platform-demo: $(BUILD)/build.ninja
	@echo "platform-demo: building the tool" >&2
	@cmake --build $(BUILD) --target tenon
	@.venv/bin/python scripts/platform_demo.py --tenon $(BUILD)/bin/tenon

# What only tests need comes while the compiler works, and the sanitizers' programs are built first, so that none of the tests waits for a compiler.
# Tests make and remove thousands of files: in memory where 8 GiB are free there, as file systems on disk take long to use an inode again.
test: $(BUILD)/build.ninja
	@scripts/setup.sh $(TEST_NEEDS) & setup=$$!; cmake --build $(BUILD); built=$$?; wait $$setup && exit $$built
	@for preset in asan tsan; do cmake --preset $$preset && cmake --build --preset $$preset || exit; done
	@status=0; rm -f $(BUILD)/ctest.xml; memory=/dev/shm; \
	[ "$$(df --output=avail $$memory 2>&1 | tail -1)" -gt 8388608 ] 2>/dev/null && TMPDIR=$$(mktemp -d $$memory/tenon-test-XXXXXX) && export TMPDIR && trap 'rm -rf "$$TMPDIR"' EXIT; \
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error --parallel $$(($$(nproc) + 1)) --output-junit ctest.xml || status=$$?; \
	.venv/bin/python scripts/ctest_summary.py $(BUILD) $(BUILD)/ctest.xml; \
	exit $$status

# The programs that are carried to machines with a GPU, here on one.
test-gpu: setup
	@[ -f build/static/build.ninja ] || cmake --preset static
	@cmake --build --preset static
	@.venv/bin/python scripts/test_gpu.py --reports build/static

# The runtime for AArch64 and RISC-V, and engines run by it under QEMU. `make test` leaves it out, as it compiles for two minutes.
test-cross: $(BUILD)/build.ninja
	@scripts/setup.sh cross emulators
	@cmake --build $(BUILD) --target tenon
	@for preset in aarch64 riscv64; do [ -f build/$$preset/build.ninja ] || cmake --preset $$preset; cmake --build --preset $$preset || exit; done
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -R '^e2e_cross$$'

# The pages of docs as a site that works without a network: open build/site/index.html. Fails where a link or an anchor is dead.
docs:
	@scripts/setup.sh docs
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build
	@ls build/site/index.html

setup:
	@scripts/setup.sh

# What only tests need.
TEST_NEEDS := torch programs serving registry signing deploy docs language emulators
setup-tests:
	@scripts/setup.sh $(TEST_NEEDS)

setup-torch:
	@scripts/setup.sh torch

build: setup
	@grep -qs '^TENON_BATCH:STRING=1$$' $(BUILD)/CMakeCache.txt || cmake --preset $(PRESET) -DTENON_BATCH=1
	@cmake --build $(BUILD)

# What is installed elsewhere without building: a wheel for any Python from 3.10, or one program.
wheel: $(BUILD)/build.ninja
	@cmake --build $(BUILD) --target wheel
	@ls $(BUILD)/wheel/*.whl

static: setup
	@[ -f build/static/build.ninja ] || cmake --preset static
	@cmake --build --preset static --target tenon
	@ls build/static/bin/tenon

# The server as an image for podman or Docker: docs/guides/deploy.md.
BUILDER ?= podman
image: static
	@mkdir -p build/image
	@cp build/static/bin/tenon LICENSE docs/reference/third-party.md deploy/image/Containerfile build/image
	@$(BUILDER) build $(BUILD_FLAGS) --file build/image/Containerfile --tag tenon:$$(build/static/bin/tenon --version | sed 's/[^0-9]*\([0-9.]*\).*/\1/') build/image

$(BUILD)/build.ninja: setup
	@[ -f $@ ] || cmake --preset $(PRESET) -DTENON_BATCH=$(BATCH)
