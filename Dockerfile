# The server as an image. Build and run it with docker-compose.yml, or by hand:
#
#   docker build -t countersign .
#   docker run --init --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#     -v countersign-state:/var/lib/countersign countersign
#
# Started so, it listens on the loopback address of the container and on the Unix socket in its volume only:
# docker-compose.yml shows how to publish it.
#
# Approved commands run in this container, with what it holds. Give agents more programs with an image of your own
# (FROM countersign, USER root, RUN apt-get …, USER 10001:10001), and mount the folders that they work in.

# The toolchain that Cargo.toml names as rust-version. The slim form has the C compiler that SQLite needs.
ARG RUST_IMAGE=rust:1.95-slim-bookworm
# Any image with the C library of that one and a shell.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${RUST_IMAGE} AS build
WORKDIR /src
# What may come in here is listed in .dockerignore.
COPY . .
# What `countersign` says it was built from.
ARG COUNTERSIGN_COMMIT=unknown
RUN cargo build --profile dist --locked --bin countersign

FROM ${BASE_IMAGE}
# The numbers are part of the contract: volumes made by one version belong to the account of the next.
# Written by hand, because base images do not agree on a program that makes accounts.
RUN printf 'countersign:x:10001:\n' >>/etc/group \
    && printf 'countersign:x:10001:10001::/var/lib/countersign:/bin/sh\n' >>/etc/passwd \
    && mkdir /var/lib/countersign \
    && chmod 0700 /var/lib/countersign \
    && chown 10001:10001 /var/lib/countersign
COPY --from=build /src/target/dist/countersign /usr/local/bin/countersign

ENV HOME=/var/lib/countersign \
    OPENCLAW_STATE_DIR=/var/lib/countersign/state
USER 10001:10001
WORKDIR /var/lib/countersign
# A new volume takes over the owner and the mode of the folder below.
VOLUME /var/lib/countersign
EXPOSE 18790
STOPSIGNAL SIGTERM
# Asks the running server itself, over its socket and without a token.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["countersign", "doctor", "--ready"]

LABEL org.opencontainers.image.title="countersign" \
      org.opencontainers.image.description="The control plane between AI agents and the machines they run commands on" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"

ENTRYPOINT ["countersign"]
CMD ["serve"]
