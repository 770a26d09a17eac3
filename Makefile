# `make test` installs what is missing on a fresh Debian 12 or Ubuntu 24.04 with cargo from rustup, and then runs all
# checks. Each check is a target; `make help` lists them. No check is skipped: one that cannot run fails.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

# A debug build of cargo-deny takes about a minute on two cores, a release build much longer. Both are fast enough.
DENY_VERSION := 0.20.2
TOOLS := target/tools
DENY := $(TOOLS)/cargo-deny-$(DENY_VERSION)

.PHONY: help setup test fmt lint unit redis-rules-long redis-million redis-scale idle-connections protocol-long \
    mutants schedules fuzz torture torture-slice torture-long torture-build doc deny advisories proto-baseline run

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build and start a server on 127.0.0.1:7420
	cargo run --release -- serve

test: setup ## Run all checks that a change has to pass
	$(MAKE) --no-print-directory fmt lint unit torture-slice doc deny

setup: ## Install what is missing for builds and tests
	@.ci/setup

fmt: ## Check the format of the code
	cargo fmt --all --check

lint: ## Run clippy; warnings are errors
	cargo clippy --locked --workspace --all-targets -- -D warnings

unit: ## Run all tests: rules, server over real sockets, compatibility of the API, repository
	cargo test --locked --workspace

# Not part of `test`: takes half an hour or more. `unit` compares a few thousand shorter sequences.
redis-rules-long: ## Compare the Redis scripts with the rules, over 200,000 random sequences
	FENCEPOST_SEQUENCES=200000 FENCEPOST_COMMANDS=200 cargo test --locked --test redis_rules -- --nocapture

# Not part of `test`: takes a few minutes. `unit` uses 50,000 names.
redis-million: ## Check that a million lock names leave no data behind in Redis
	FENCEPOST_NAMES=1000000 cargo test --locked --test redis_names -- --nocapture

# Not part of `test`: builds an optimised server, and needs an idle machine. `unit` keeps 10,000 leases.
redis-scale: ## Keep 100,000 leases on ten streams, on Redis
	FENCEPOST_LEASES=100000 cargo test --locked --release --test redis_scale -- --nocapture

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
	crates/fuzz/run.sh redis $(FUZZ_SECONDS)
	crates/fuzz/run.sh config $(FUZZ_SECONDS)

# Only the slice is part of `test`. Each history prints a page; failures are kept below target/torture.
torture: torture-build ## Run real processes under real faults, for five minutes
	target/debug/torture suite --for 5m --state target/torture/$@-$$(date +%s)

torture-slice: torture-build ## Run the torture for two minutes, for each change
	target/debug/torture suite --for 2m --state target/torture/$@-$$(date +%s)

TORTURE_FOR ?= 3h
TORTURE_SEED ?= 1
torture-long: torture-build ## Run or continue the torture for TORTURE_FOR; appends to crates/torture/RESULTS.md
	target/debug/torture suite --for $(TORTURE_FOR) --seed $(TORTURE_SEED) --state target/torture/long-$(TORTURE_SEED) \
	    --results crates/torture/RESULTS.md

# Needs setup for the Python environment of the clients that use gRPC's retry policy.
torture-build: setup
	cargo build --locked -p fencepost -p fencepost-torture

# Not part of `test`: a release build, a few minutes and half a gigabyte of memory. The larger world has a million
# states; `unit` explores smaller ones, with up to 28,000 states, completely.
protocol-long: ## Explore the protocol between clients, replicas and store in larger worlds
	FENCEPOST_PROTOCOL_LONG=1 cargo test --locked --release --test protocol -- --nocapture --test-threads 1

# Not part of `test`: each mutant is a build. Writes tests/repo/mutants/RESULTS.md.
mutants: ## Check that the named tests find each deliberate mistake in rules, servers and scripts
	cargo test --locked --test mutants-run -- --nocapture

doc: ## Build the documentation; warnings are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

deny: $(DENY) ## Check licences, bans and sources of all dependencies
	$(DENY)/bin/cargo-deny --locked check --hide-inclusion-graph bans licenses sources

# Not part of `test`: needs the RustSec database from the network, and a new advisory must not fail an old commit.
advisories: $(DENY) ## Check dependencies for known vulnerabilities: before a release, and regularly
	$(DENY)/bin/cargo-deny --locked check advisories

$(DENY):
	cargo install --locked --debug --no-track --version $(DENY_VERSION) --root $@ --target-dir $(TOOLS)/build cargo-deny
	rm -rf $(TOOLS)/build

proto-baseline: ## Record the API as released; later changes must not break it
	cargo test --locked -p fencepost-proto --test compat
	cargo run --locked -p fencepost-proto --example baseline
