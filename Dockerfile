# The image of the server and the command line: `make image`. docs/deploying.md says how to run it.
#
# Both base images are arguments, so that a build can use a mirror, another base, or fixed bytes (`name@sha256:…`;
# docs/deploying.md). The builder needs cargo, the toolchain of rust-toolchain.toml, a C compiler, make (which slim images
# of Rust lack), and the glibc of the runtime image or an older one. The runtime image needs glibc, and root certificates
# if the store is `rediss://`.
ARG BUILDER_IMAGE=docker.io/library/rust:1.95.0-bookworm
ARG RUNTIME_IMAGE=gcr.io/distroless/cc-debian12:nonroot

FROM ${BUILDER_IMAGE} AS build
WORKDIR /build
ENV CARGO_INCREMENTAL=0

# Dependencies are a layer of their own, which changes only with the manifests. rust-toolchain.toml is left out: rustup
# would download its components, and the toolchain is that of the base image.
COPY Cargo.toml Cargo.lock ./
COPY proto/Cargo.toml proto/
COPY clients/rust/Cargo.toml clients/rust/
COPY clients/rust/guards/Cargo.toml clients/rust/guards/
COPY crates/bench/Cargo.toml crates/bench/
COPY crates/fuzz/Cargo.toml crates/fuzz/
COPY crates/schedules/Cargo.toml crates/schedules/
COPY crates/torture/Cargo.toml crates/torture/
# Empty crates in place of ours. `cargo clean` removes them from the layer: cargo compares times, and sources that are
# older than this layer would count as compiled.
RUN for crate in . proto clients/rust clients/rust/guards crates/bench crates/fuzz crates/schedules crates/torture; do \
        mkdir -p $crate/src && touch $crate/src/lib.rs && echo 'fn main() {}' > $crate/src/main.rs || exit 1; \
    done && \
    touch proto/lib.rs && echo 'fn main() {}' > proto/build.rs && \
    cargo build --locked --release --package fencepost --bin fencepost && \
    cargo clean --release --package fencepost --package fencepost-proto --package fencepost-client

COPY proto proto
COPY clients/rust clients/rust
COPY src src
RUN cargo build --locked --release --package fencepost --bin fencepost && \
    install -D --strip target/release/fencepost /out/usr/local/bin/fencepost && \
    rm -rf target
COPY LICENSE-APACHE LICENSE-MIT /out/usr/share/doc/fencepost/

FROM ${RUNTIME_IMAGE}
COPY --from=build /out /

ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=
LABEL org.opencontainers.image.title="Fencepost" \
    org.opencontainers.image.description="A lock server: locks over gRPC with fencing tokens" \
    org.opencontainers.image.licenses="Apache-2.0 OR MIT" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.source="${SOURCE}"

# A container is reached from outside, so the image listens on all addresses, without TLS unless it is configured. The
# admin port is for probes and Prometheus: do not publish it to clients.
ENV FENCEPOST_LISTEN=:7420 \
    FENCEPOST_PLAINTEXT=true \
    FENCEPOST_ADMIN_LISTEN=:7429
EXPOSE 7420 7429

# A number, so that Kubernetes can check that it is not root. The server writes no files.
USER 65532:65532
# Starts the drain: at most 10 s of drain_timeout and 3 s. Give the container 20 s to stop.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 CMD ["fencepost", "health"]
ENTRYPOINT ["fencepost"]
CMD ["serve"]
