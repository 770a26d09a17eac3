# `make test` does all set-up on a fresh Debian 12 or Ubuntu 24.04 with cargo from rustup, and then checks everything.
# Each check is a target of its own; `make help` lists them. None is skipped: what cannot run fails.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

# An unoptimised build of cargo-deny takes about a minute on two cores (an optimised one takes many), and checks as well.
DENY_VERSION := 0.20.2
TOOLS := target/tools
DENY := $(TOOLS)/cargo-deny-$(DENY_VERSION)

.PHONY: help setup test fmt lint unit redis-rules-long redis-million redis-scale protocol-long mutants schedules fuzz torture torture-slice \
    torture-long torture-build doc deny advisories proto-baseline run

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build and start a server on 127.0.0.1:7420
	cargo run --release -- serve

test: setup ## Everything a change has to pass
	$(MAKE) --no-print-directory fmt lint unit torture-slice doc deny

setup: ## Install what is missing to build and test
	@.ci/setup

fmt: ## The code is formatted
	cargo fmt --all --check

lint: ## No warning from clippy
	cargo clippy --locked --workspace --all-targets -- -D warnings

unit: ## All tests: of the rules, of the server over real sockets, of the API's compatibility, of this repository
	cargo test --locked --workspace

# Not part of `test`: it takes half an hour and more. `unit` compares some thousands, shorter ones.
redis-rules-long: ## The Redis scripts against the rules, over very many random sequences
	FENCEPOST_SEQUENCES=200000 FENCEPOST_COMMANDS=200 cargo test --locked --test redis_rules -- --nocapture

# Not part of `test`: it takes some minutes. `unit` uses 50,000.
redis-million: ## A million lock names leave nothing behind in Redis
	FENCEPOST_NAMES=1000000 cargo test --locked --test redis_names -- --nocapture

# Not part of `test`: it builds an optimised server, and wants a machine that does nothing else. `unit` keeps 10,000.
redis-scale: ## A hundred thousand leases on ten streams, on Redis
	FENCEPOST_LEASES=100000 cargo test --locked --release --test redis_scale -- --nocapture

# Not part of `test`: it takes ten minutes. `unit` tries 2,000 of each.
SCHEDULES ?= 200000
SCHEDULES_SEED ?= 1
schedules: ## The store and the waiters under very many orders of events, other ones with another SCHEDULES_SEED
	FENCEPOST_SCHEDULES=$(SCHEDULES) FENCEPOST_SEED=$(SCHEDULES_SEED) \
	    cargo test --locked -p fencepost-schedules -- --nocapture

# Not part of `test`: it builds everything again, with coverage. `unit` has thousands of random changes to good inputs.
FUZZ_SECONDS ?= 600
fuzz: setup ## Everything that reads bytes from outside, fuzzed for FUZZ_SECONDS each
	crates/fuzz/run.sh request $(FUZZ_SECONDS)
	crates/fuzz/run.sh redis $(FUZZ_SECONDS)
	crates/fuzz/run.sh config $(FUZZ_SECONDS)

# Only the slice is part of `test`: histories take their time. Each prints a page; what is wrong is kept below target/torture.
torture: torture-build ## Real processes under real faults, for five minutes
	target/debug/torture suite --for 5m --state target/torture/$@-$$(date +%s)

torture-slice: torture-build ## The same for two minutes, for every change
	target/debug/torture suite --for 2m --state target/torture/$@-$$(date +%s)

TORTURE_FOR ?= 3h
TORTURE_SEED ?= 1
torture-long: torture-build ## The same for hours (TORTURE_FOR), going on where it ended; adds to crates/torture/RESULTS.md
	target/debug/torture suite --for $(TORTURE_FOR) --seed $(TORTURE_SEED) --state target/torture/long-$(TORTURE_SEED) \
	    --results crates/torture/RESULTS.md

# The clients that use gRPC's retry policy need the Python environment.
torture-build: setup
	cargo build --locked -p fencepost -p fencepost-torture

# Not part of `test`: it builds optimised, then takes some minutes and half a gigabyte of memory. The larger world has a million states;
# `unit` follows the smaller ones, of up to 28,000, to their end.
protocol-long: ## The protocol between clients, replicas and store, in larger worlds
	FENCEPOST_PROTOCOL_LONG=1 cargo test --locked --release --test protocol -- --nocapture --test-threads 1

# Not part of `test`: each mutant is a build. Writes tests/repo/mutants/RESULTS.md.
mutants: ## Each deliberate mistake in the rules and the scripts is found by the test that is named for it
	cargo test --locked --test mutants-run -- --nocapture

doc: ## The documentation builds without a warning
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

deny: $(DENY) ## Licences, banned crates and sources of all dependencies
	$(DENY)/bin/cargo-deny --locked check --hide-inclusion-graph bans licenses sources

# Not part of `test`: it needs the RustSec database from the network, and an advisory of today must not fail the commit of yesterday.
advisories: $(DENY) ## Known vulnerabilities in dependencies: before a release, and by a timer
	$(DENY)/bin/cargo-deny --locked check advisories

$(DENY):
	cargo install --locked --debug --no-track --version $(DENY_VERSION) --root $@ --target-dir $(TOOLS)/build cargo-deny
	rm -rf $(TOOLS)/build

proto-baseline: ## Record the API as released: from then on no change may break it
	cargo test --locked -p fencepost-proto --test compat
	cargo run --locked -p fencepost-proto --example baseline
