# The two commands: `make demo` runs the main job on real input, `make test` runs every test.
# Each does the whole set-up first, which takes no time when there is nothing to do.

PRESET ?= dev
BUILD := build/$(PRESET)

.PHONY: demo test setup build

demo: $(BUILD)/build.ninja
	@echo "demo: building the tool" >&2
	@cmake --build $(BUILD) --target tenon
	@.venv/bin/python scripts/demo.py --tenon $(BUILD)/bin/tenon

test: $(BUILD)/build.ninja
	@cmake --build $(BUILD)
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error

setup:
	@scripts/setup.sh

build: $(BUILD)/build.ninja
	@cmake --build $(BUILD)

$(BUILD)/build.ninja: setup
	@[ -f $@ ] || cmake --preset $(PRESET)
