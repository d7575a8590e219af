#!/bin/sh
# Builds the image of the agent and its operator and writes it as a docker-archive, with docker, podman
# or buildah, whichever works here; where none does, buildah is installed. The binaries are built beforehand.
#
#   e2e/image.sh IMAGE OUT.tar [ARCH]
#   e2e/image.sh registry.example.com/storage/hostpath-provisioner:dev _artifacts/agent.tar arm64
set -eu

say() { echo "image.sh: $*" >&2; }

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    say "usage: e2e/image.sh IMAGE OUT.tar [ARCH]"
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
image=$1
out=$2

arch=${3:-$(uname -m)}
case $arch in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) say "no image for $arch; it is built for amd64 and arm64"; exit 2 ;;
esac

# A name without a tag means latest; the colon of a port is not one.
case ${image##*/} in
*@*) say "$image: give a tag, not a digest"; exit 2 ;;
*:*) version=${image##*:} ;;
*) version=latest image=$image:latest ;;
esac

binaries="bin/linux-$arch/hostpath-provisioner bin/linux-$arch/hostpath-operator"
bytes=0
for binary in $binaries; do
    if [ ! -f "$root/$binary" ]; then
        say "$binary is not there; build it first"
        exit 1
    fi
    bytes=$((bytes + $(stat -c %s "$root/$binary")))
done
# The image has nothing else. Every node pulls it.
if [ "$bytes" -gt 85000000 ]; then
    say "the binaries have $bytes bytes, more than 85000000; find what they depend on"
    exit 1
fi

work=$(mktemp -d)
part=$out.part.$$
trap 'rm -rf "$work" "$part"' EXIT
trap 'exit 1' INT TERM HUP

# buildah keeps its storage below the temporary directory: nothing is left behind, and it needs
# neither overlay mounts nor a user namespace.
run_buildah() { buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run" "$@"; }

# A command that is installed may still have no engine behind it.
works() {
    case $1 in
    buildah) run_buildah info ;;
    *) timeout 20 "$1" info ;;
    esac >/dev/null 2>&1
}

engine=
for try in docker podman buildah; do
    if command -v "$try" >/dev/null && works "$try"; then
        engine=$try
        break
    fi
done
if [ -z "$engine" ]; then
    "$root/e2e/packages.sh" buildah
    engine=buildah
    if ! works "$engine"; then
        say "no docker, podman or buildah that works; 'buildah info' says why"
        exit 1
    fi
fi
say "$image for $arch with $engine"

# The engine sees the binaries and the Dockerfile, not the whole tree.
mkdir -p "$work/context/bin/linux-$arch"
cp "$root/Dockerfile" "$work/context/"
for binary in $binaries; do
    install -m 0755 "$root/$binary" "$work/context/$binary"
done

revision=$(git -C "$root" rev-parse HEAD 2>/dev/null || true)

set -- --platform "linux/$arch" -t "$image" \
    --build-arg TARGETARCH="$arch" --build-arg VERSION="$version" --build-arg REVISION="$revision" \
    "$work/context"

# Written aside and renamed: an archive under its own name is whole, and an older one is no obstacle.
mkdir -p "$(dirname "$out")"
case $engine in
docker)
    docker build --quiet "$@" >"$work/id"
    docker save -o "$part" "$image"
    ;;
podman)
    podman build --quiet "$@" >"$work/id"
    podman save --quiet --format docker-archive -o "$part" "$image"
    ;;
buildah)
    run_buildah build --quiet --isolation chroot "$@" >"$work/id" # its ID says nothing to a reader
    run_buildah push --quiet "$image" "docker-archive:$part:$image" >&2
    ;;
esac
mv "$part" "$out"
say "wrote $out"
