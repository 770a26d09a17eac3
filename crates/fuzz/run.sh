#!/usr/bin/env bash
# Fuzzes one target with libFuzzer: crates/fuzz/run.sh request|record|parcel|config|access SECONDS. The corpus is kept below target/.
# The flags make LLVM count coverage for libFuzzer; they work with the stable compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=${1:?target: request, record, parcel, config or access}
seconds=${2:?duration in seconds}
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions=yes -Coverflow-checks=yes"
export CARGO_PROFILE_RELEASE_LTO=off
cargo build --locked --release --package fencepost-fuzz --features libfuzzer --bin "fuzz-$target" --target "$host" --target-dir target/fuzz
corpus=target/fuzz/corpus/$target
# The target writes its seeds there (src/seeds.rs).
export FENCEPOST_FUZZ_SEEDS=target/fuzz/seeds/$target
mkdir -p "$corpus" "$FENCEPOST_FUZZ_SEEDS" target/fuzz/found
exec "target/fuzz/$host/release/fuzz-$target" "$corpus" "$FENCEPOST_FUZZ_SEEDS" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix=target/fuzz/found/ -print_final_stats=1
