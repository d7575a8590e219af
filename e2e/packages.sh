#!/bin/sh
# Installs the named Debian packages, or groups of them, that are missing. Does nothing when all are there.
#
#   e2e/packages.sh @cluster @disk
#   e2e/packages.sh prometheus
#
# A package also counts as there when an installed one provides it, so a machine with another
# vendor's containerd keeps it. On a machine without dpkg, it counts as there when the programs and
# files of it that the tests use are found.
set -eu

# group prints the packages of a group, and another name as it is.
group() {
    case $1 in
    @unit) echo gcc libc6-dev systemd prometheus ;; # unit tests
    @disk) echo acl attr restic postgresql e2fsprogs xfsprogs btrfs-progs gcc libc6-dev ;; # tests with real filesystems
    @cluster) echo containerd runc containernetworking-plugins iptables iproute2 busybox-static ;; # nodes on this machine
    @vm) echo qemu-system-x86 busybox-static ;; # a small virtual machine
    @machine) echo qemu-system-x86 mmdebstrap openssh-client zstd e2fsprogs xfsprogs btrfs-progs busybox-static ;; # a booted distribution
    @*)
        echo "packages.sh: no group $1; this file has them" >&2
        return 2
        ;;
    *) echo "$1" ;;
    esac
}

installed() {
    if ! command -v dpkg-query >/dev/null; then
        found "$1"
        return
    fi
    dpkg-query -W -f '${db:Status-Status} ${Package}, ${Provides}\n' 2>/dev/null |
        sed -n 's/^installed //p' | tr -s ', ' '\n' | grep -qxF -- "$1"
}

programs() {
    for program in "$@"; do
        command -v "$program" >/dev/null || return 1
    done
}

found() {
    case $1 in
    acl) programs setfacl ;;
    attr) programs setfattr ;;
    restic) programs restic ;;
    postgresql) ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 ;;
    btrfs-progs) programs btrfs mkfs.btrfs ;;
    busybox-static) programs busybox ;;
    containerd) programs containerd containerd-shim-runc-v2 ctr ;;
    containernetworking-plugins)
        [ -x /usr/lib/cni/host-local ] || [ -x /opt/cni/bin/host-local ] || [ -x /usr/libexec/cni/host-local ]
        ;;
    e2fsprogs) programs mkfs.ext4 tune2fs ;;
    gcc) programs "${CC:-gcc}" ;;
    iproute2) programs ip ;;
    libc6-dev) echo '#include <stdlib.h>' | "${CC:-gcc}" -E - >/dev/null 2>&1 ;;
    openssh-client) programs ssh ssh-keygen ;;
    prometheus) programs prometheus promtool ;;
    qemu-system-arm) programs qemu-system-aarch64 ;;
    qemu-system-x86) programs qemu-system-x86_64 ;;
    shellcheck) programs shellcheck ;;
    systemd) programs systemd-analyze ;;
    xfsprogs) programs mkfs.xfs ;;
    *) programs "$1" ;; # named as its program is
    esac
}

names=
for name in "$@"; do
    names="$names $(group "$name")" || exit 2
done
missing=
for name in $names; do
    case "$missing " in *" $name "*) continue ;; esac # two groups have it
    installed "$name" || missing="$missing $name"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "packages.sh: not a Debian machine; install by hand what these packages have there:$missing" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "packages.sh: not root; run: sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
echo "packages.sh: installing$missing"

# Debian starts a service as soon as it is installed. A policy that answers 101 (forbidden)
# prevents it: these tests start their own containerd.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086 # $missing is a list of words
if ! { apt-get -q update && apt-get -q install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "packages.sh: could not install$missing; the lines above say why" >&2
    exit 1
fi
rm -f "$log"
