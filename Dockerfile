# Two static binaries, the agent and its operator, and nothing else: no shell, no package to update.
# The binaries are built beforehand, so that no toolchain image is needed for another architecture.
FROM scratch

# amd64 or arm64, as the platform that is built for.
ARG TARGETARCH
COPY bin/linux-${TARGETARCH}/hostpath-provisioner bin/linux-${TARGETARCH}/hostpath-operator /

ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="hostpath-provisioner" \
      org.opencontainers.image.description="Node-local storage for Kubernetes: the node agent and its operator" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# Root: tenants' files belong to any user, and the agent removes them. The DaemonSet takes away
# every capability that this does not need.
USER 0
ENTRYPOINT ["/hostpath-provisioner"]
