# `make test` installs what is missing on a fresh Debian 12 or Ubuntu 24.04 with cargo from rustup, and then runs all
# checks. Each check is a target; `make help` lists them. No check is skipped: one that cannot run fails.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

# Tools for the dependencies. Debug builds are fast enough, and take a minute where release builds take many.
DENY_VERSION := 0.20.2
TOOLS := target/tools
DENY := $(TOOLS)/cargo-deny-$(DENY_VERSION)
CYCLONEDX_VERSION := 0.5.9
CYCLONEDX := $(TOOLS)/cargo-cyclonedx-$(CYCLONEDX_VERSION)

# The version of the workspace, of which the binary, the image and the release have one.
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml | head -n 1)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)

# .ci/setup puts what the system lacks here.
export PATH := $(CURDIR)/target/toolchains/bin:$(PATH)

# All packages at a time, with a feature for users' tests, which is off by default. Cargo unites the features of the
# dependencies of what it builds: with other packages selected, it would build most dependencies once more.
WORKSPACE := --workspace --features fencepost-client/testing

.PHONY: help setup test quick fmt build lint unit programs test-clients test-python test-typescript test-go \
    test-java test-guards start-clients drivers interop redis-million redis-scale overload idle-connections \
    protocol-long quorum-worlds takeover two-versions mutants script-mutants schedules fuzz engines matrix \
    matrix-slice torture torture-slice torture-long doc deny advisories proto-baseline run image image-check \
    image-login image-push sbom dist publish

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build and start a server on 127.0.0.1:7420
	cargo run --release -- serve

# Each check says how long it took: all of them have to stay under 45 minutes on two cores. Tests wait for leases and
# servers, so the linter and the tool of the last check are built meanwhile, with the time that they leave. The check
# itself then finds what is built, and says what failed.
CHECKS := fmt build unit matrix-slice torture-slice test-clients interop lint doc deny
test: setup ## Run all checks that a change has to pass
	@nice -n 19 $(MAKE) --no-print-directory $(DENY) > /dev/null 2>&1 & deny=$$!; lint=; \
	trap 'kill $$deny $$lint 2> /dev/null' EXIT; \
	for check in $(CHECKS); do \
	    SECONDS=0; case $$check in lint) wait $$lint ;; deny) wait $$deny ;; esac; \
	    $(MAKE) --no-print-directory $$check || exit; echo "$$check: passed in $$SECONDS s"; \
	    [ $$check != build ] || { nice -n 19 $(MAKE) --no-print-directory lint > /dev/null 2>&1 & lint=$$!; }; \
	done

# Part of `test`. Needs no program beside cargo and git, so no `setup`.
quick: fmt lint ## Run format, clippy, unit tests of the library and the binary, and tidy: before each commit
	cargo test --locked $(WORKSPACE) --lib --bins --test tidy

setup: ## Install what is missing for builds and tests
	@.ci/setup

fmt: ## Check the format of the code
	cargo fmt --all --check

# Tests that `cargo test` does not run by itself, which --all-targets leaves out.
RUN_APART := interop overload two-versions script-mutants mutants-run

build: setup ## Build all tests
	cargo test --locked $(WORKSPACE) --no-run

lint: ## Run clippy; warnings are errors
	cargo clippy --locked $(WORKSPACE) --all-targets -- -D warnings
	cargo clippy --locked $(WORKSPACE) $(addprefix --test ,$(RUN_APART)) -- -D warnings

# Tests wait for real servers and real leases more than they compute: one for each core would leave the cores idle.
# Three programs run at a time, each with two tests; on each engine of `matrix` there are few programs, with three tests.
unit: export RUST_TEST_THREADS ?= 2
matrix matrix-slice: export RUST_TEST_THREADS ?= 3
unit: setup ## Run all tests: rules, server over real sockets, compatibility of the API, repository
	.ci/tests $(WORKSPACE)
	cargo test --locked $(WORKSPACE) --doc

# An example among the targets brings the features of the dependencies of tests.
programs: setup ## Build the server, the torture and the driver for `interop`, as the tests need them
	cargo build --locked $(WORKSPACE) --bin fencepost --bin torture --example interop

engines: setup ## Fetch the newer Redis and the Valkey on which `matrix` runs tests, and see that they run
	.ci/engines

# Only the slice is part of `test`.
matrix: engines programs ## Run the tests of the store, and torture, on each supported Redis and on Valkey
	.ci/matrix all $(WORKSPACE)

matrix-slice: engines programs ## Run what depends most on the engine on a newer Redis and on Valkey, for each change
	.ci/matrix slice $(WORKSPACE)

# What `test-clients` leaves for `interop`, without its tests.
drivers: setup ## Build the drivers for `interop` in all languages but Rust
	clients/python/check --driver
	clients/typescript/check --driver
	clients/go/check --driver
	clients/java/check --driver

# `drivers` or `test-clients` has built the drivers of the other languages.
interop: programs ## Run one suite against the clients of all languages, or of FENCEPOST_INTEROP=rust,python
	cargo test --locked $(WORKSPACE) --test interop

# Each client, and the guards that they share, have one script with all checks. It leaves the driver for `interop`.
CLIENT_TESTS := $(addprefix test-,python typescript go java guards)
test-clients: ## Check the clients of all other languages, and the guards, two at a time
	$(MAKE) --no-print-directory --jobs 2 --output-sync $(CLIENT_TESTS)

test-python: ## Check the Python client
test-typescript: ## Check the TypeScript client
test-go: ## Check the Go client
test-java: ## Check the Java client
test-guards: ## Attack the guards of all stores with writers and readers, and run the recipes
$(CLIENT_TESTS): test-%: programs
	FENCEPOST_BIN=$(CURDIR)/target/debug/fencepost clients/$*/check

# Not part of `test`: it measures, and needs the network for what the caches of this machine lack.
start-clients: programs ## Measure the start of a new user in each language, from a clean folder to the first lock
	FENCEPOST_BIN=$(CURDIR)/target/debug/fencepost clients/start.py

# Not part of `test`: takes a few minutes. `unit` uses 50,000 names.
redis-million: ## Check that a million lock names leave no data behind in Redis
	FENCEPOST_NAMES=1000000 cargo test --locked --test redis_names -- --nocapture

# Not part of `test`: builds an optimised server, and needs an idle machine. `unit` keeps 10,000 leases.
redis-scale: ## Keep 100,000 leases on ten streams, on Redis
	FENCEPOST_LEASES=100000 cargo test --locked --release --test redis_scale -- --nocapture

# Not part of `test`: needs an idle machine. `unit` has the same in virtual time.
overload: setup ## Keep leases of 3 s beside a flood of acquires, and of streams, on Redis
	cargo test --locked $(WORKSPACE) --test overload -- --nocapture

# Not part of `test`: needs 10,000 file descriptors in each of two processes. `unit` opens 2,000 connections.
idle-connections: ## Keep leases alive beside 10,000 idle connections
	FENCEPOST_IDLE=10000 cargo test --locked --test connections idle:: -- --nocapture

# Not part of `test`: takes ten minutes. `unit` tries 2,000 orders for each test.
SCHEDULES ?= 200000
SCHEDULES_SEED ?= 1
schedules: ## Test the store and the waiters under many orders of events, from SCHEDULES_SEED
	FENCEPOST_SCHEDULES=$(SCHEDULES) FENCEPOST_SEED=$(SCHEDULES_SEED) \
	    cargo test --locked -p fencepost-schedules -- --nocapture

# Not part of `test`: rebuilds everything with coverage. `unit` tries thousands of random changes of valid inputs.
FUZZ_SECONDS ?= 600
fuzz: setup ## Fuzz all parsers of external input, for FUZZ_SECONDS each
	crates/fuzz/run.sh request $(FUZZ_SECONDS)
	crates/fuzz/run.sh record $(FUZZ_SECONDS)
	crates/fuzz/run.sh parcel $(FUZZ_SECONDS)
	crates/fuzz/run.sh config $(FUZZ_SECONDS)
	crates/fuzz/run.sh access $(FUZZ_SECONDS)

# Only the slice is part of `test`. Each history prints a page; failures are kept below target/torture.
torture: programs ## Run real processes under real faults, for five minutes
	target/debug/torture suite --for 5m --state target/torture/$@-$$(date +%s)

torture-slice: programs ## Run the torture for two minutes, for each change
	target/debug/torture suite --for 2m --state target/torture/$@-$$(date +%s)

TORTURE_FOR ?= 3h
TORTURE_SEED ?= 1
torture-long: programs ## Run or continue the torture for TORTURE_FOR; appends to crates/torture/RESULTS.md
	target/debug/torture suite --for $(TORTURE_FOR) --seed $(TORTURE_SEED) --state target/torture/long-$(TORTURE_SEED) \
	    --results crates/torture/RESULTS.md

# Not part of `test`: a release build, a few minutes and half a gigabyte of memory. The larger world has a million
# states; `unit` explores smaller ones, with up to 28,000 states, completely.
protocol-long: ## Explore the protocol between clients, replicas and store in larger worlds
	FENCEPOST_PROTOCOL_LONG=1 cargo test --locked --release --test protocol -- --nocapture --test-threads 1

# Not part of `test`: a release build, a quarter of an hour and 3 GB of memory. `unit` explores smaller worlds, with
# up to 43,000 states, completely. The figures of one run: tests/store/quorum/RESULTS.md.
quorum-worlds: ## Explore the quorum of nodes that keep a partition in larger worlds
	FENCEPOST_QUORUM_WORLDS=1 cargo test --locked --release --test quorum -- --nocapture --test-threads 1

# Not part of `test`: a release build, and a quarter of an hour on an idle machine.
takeover: ## Measure for how long locks have no answer when the server that leads them dies, stops or drains
	cargo bench --locked --bench takeover

# Not part of `test`: builds the version before, in a worktree and a target of its own, which the next run finds again.
# BEFORE is the last commit whose servers do not know max_hold.
BEFORE ?= 335b455bdb94d8560047c58fe90595d72f9b5f65
BEFORE_TREE := target/two-versions/tree
two-versions: programs ## Run servers of the version before and of this one on one Redis, under load
	git worktree prune
	test -d $(BEFORE_TREE) || git worktree add --detach $(BEFORE_TREE) $(BEFORE)
	git -C $(BEFORE_TREE) checkout --quiet --detach $(BEFORE)
	cargo build --locked --package fencepost --manifest-path $(BEFORE_TREE)/Cargo.toml --target-dir target/two-versions/target
	FENCEPOST_BEFORE=$(CURDIR)/target/two-versions/target/debug/fencepost \
	    cargo test --locked $(WORKSPACE) --test two-versions -- --test-threads 1

# Not part of `test`: each mutant is a build, which loads nothing. Writes tests/repo/mutants/RESULTS.md.
script-mutants: setup ## Check that the comparison with the twin finds each small mistake in a script of a node
	cargo test --locked --test script-mutants -- --nocapture

mutants: ## Check that the named tests find each deliberate mistake in rules, servers and scripts
	cargo fetch --locked --target $(HOST)
	cargo test --locked --test mutants-run -- --nocapture

doc: ## Build the documentation; warnings are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --locked $(WORKSPACE) --no-deps

deny: $(DENY) ## Check licences, bans and sources of all dependencies
	$(DENY)/bin/cargo-deny --locked check --hide-inclusion-graph bans licenses sources

# Not part of `test`: needs the RustSec database from the network, and a new advisory must not fail an old commit.
advisories: $(DENY) ## Check dependencies for known vulnerabilities: before a release, and regularly
	$(DENY)/bin/cargo-deny --locked check advisories

$(DENY):
	cargo install --locked --debug --no-track --version $(DENY_VERSION) --root $@ --target-dir $(TOOLS)/build cargo-deny
	rm -rf $(TOOLS)/build

$(CYCLONEDX):
	cargo install --locked --debug --no-track --version $(CYCLONEDX_VERSION) --root $@ --target-dir $(TOOLS)/build \
	    cargo-cyclonedx
	rm -rf $(TOOLS)/build

proto-baseline: ## Record the API as released; later changes must not break it
	cargo test --locked -p fencepost-proto --test compat
	cargo run --locked -p fencepost-proto --example baseline

# Podman if there is one, otherwise docker. The Dockerfile has the defaults of both base images.
CONTAINER ?= $(firstword $(foreach tool,podman docker,$(if $(shell command -v $(tool)),$(tool))))
IMAGE ?= fencepost:$(VERSION)
IMAGE_FLAGS ?=
BUILDER_IMAGE ?=
RUNTIME_IMAGE ?=
# Where the source is published, for the labels of the image.
SOURCE ?=
# The time of the commit is the time of the image and the archive, so that the same commit gives the same bytes. Other
# targets must not see it: crates that compile C, and all that depend on them, would be built anew after each commit.
image sbom dist: export SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),0)

# Docker has no option for the format, which has to have a health check, and takes the time from the environment.
image: ## Build the image with podman or docker
	$(CONTAINER) build $(if $(findstring podman,$(CONTAINER)),--format docker --timestamp $(SOURCE_DATE_EPOCH)) \
	    $(IMAGE_FLAGS) $(if $(BUILDER_IMAGE),--build-arg BUILDER_IMAGE=$(BUILDER_IMAGE)) \
	    $(if $(RUNTIME_IMAGE),--build-arg RUNTIME_IMAGE=$(RUNTIME_IMAGE)) --build-arg VERSION=$(VERSION) \
	    --build-arg REVISION=$(REVISION) --build-arg SOURCE=$(SOURCE) --tag $(IMAGE) .

# The password is in REGISTRY_PASSWORD, so that no list of processes shows it.
image-login: ## Log in to the registry that IMAGE names, as REGISTRY_USER
	@printf '%s' "$$REGISTRY_PASSWORD" | $(CONTAINER) login --username "$$REGISTRY_USER" --password-stdin \
	    $(firstword $(subst /, ,$(IMAGE)))

image-push: ## Push the image to the registry that IMAGE names
	$(CONTAINER) push $(IMAGE)

# Not part of `test`: needs root and a release build of all dependencies, ten minutes.
image-check: ## Build the image on bases made from Debian's packages, and run its binary
	.ci/image-check

# What a release consists of is in target/dist. The archive has the same bytes each time, if the toolchain, the target
# and the folder of the sources are the same.
DIST := target/dist
HOST = $(shell rustc --version --verbose | sed -n 's/^host: //p')
ARCHIVE = fencepost-$(VERSION)-$(HOST)
BENCH = fencepost-bench-$(VERSION)-$(HOST)

# cargo-cyclonedx writes beside each manifest of the workspace. Only the bills of the programs are kept.
sbom: $(CYCLONEDX) ## Write the bills of materials of the programs (CycloneDX) to target/dist
	mkdir -p $(DIST)
	PATH="$(CURDIR)/$(CYCLONEDX)/bin:$$PATH" cargo cyclonedx --format json --spec-version 1.5 --target $(HOST) \
	    --override-filename sbom
	mv sbom.json $(DIST)/$(ARCHIVE).cdx.json
	mv crates/bench/sbom.json $(DIST)/$(BENCH).cdx.json
	git clean --quiet --force -- ':(glob)**/sbom.json'

dist: sbom ## Build the archive of a release, with its bills of materials and checksums, in target/dist
	cargo build --locked --release --package fencepost --package fencepost-bench
	rm -rf $(DIST)/$(ARCHIVE) && mkdir -p $(DIST)/$(ARCHIVE)
	install --strip target/release/fencepost target/release/fencepost-bench $(DIST)/$(ARCHIVE)/
	cp -r README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT deploy docs $(DIST)/$(ARCHIVE)/
	tar --create --directory $(DIST) --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner \
	    --mode=go-w $(ARCHIVE) | gzip --no-name > $(DIST)/$(ARCHIVE).tar.gz
	rm -rf $(DIST)/$(ARCHIVE)
	cd $(DIST) && sha256sum $(ARCHIVE).tar.gz $(ARCHIVE).cdx.json $(BENCH).cdx.json > SHA256SUMS

publish: ## Publish target/dist as the GitHub release of the tag of this version (needs gh)
	gh release create v$(VERSION) --verify-tag --title "Fencepost $(VERSION)" --notes-file CHANGELOG.md \
	    $(addprefix $(DIST)/,$(ARCHIVE).tar.gz $(ARCHIVE).cdx.json $(BENCH).cdx.json SHA256SUMS)
