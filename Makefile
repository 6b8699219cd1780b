# SPDX-License-Identifier: Apache-2.0
# Thin aliases; the work is in CMakePresets.json and scripts/.

all: build

build: ## release build in build/bin
	cmake --preset release --log-level=WARNING
	cmake --build --preset release

test: ## what is run for every change (as root); LABELS="unit netns" runs part
	scripts/test $(LABELS)

demo: ## containers on XDP ports, with counters and numbers (as root)
	scripts/demo

fmt: ## rewrite the sources with clang-format
	scripts/check-format --fix

lint: ## the checks of the sources, and clang-tidy
	scripts/test check tidy

install: build ## into XVETH_CNI_DIR (a CMake option) and the usual folders; DESTDIR is honoured
	cmake --install build

clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile

.PHONY: all build test demo fmt lint install clean help
