#!/bin/sh
# Runs a command whose temporary files are in memory. Tests of pools flush at every step. A disk takes up to a hundred times
# as long as memory for that, and delays everything else on the machine.
#
#   e2e/memory.sh go test -tags disk ./volume/...
#
# The script mounts the memory in a mount namespace of its own. It goes with the command, and so do all mounts that a killed
# test leaves. Without root, the script runs the command as it is. GOTMPDIR stays unset: t.TempDir prefers it to TMPDIR.
set -eu
[ "$(id -u)" = 0 ] || exec "$@"

dir=$(mktemp -d "${TMPDIR:-/tmp}/XXXXX") # short: there are sockets in it
trap 'rmdir "$dir"' EXIT
trap 'exit 1' INT TERM HUP
# Users other than root go through it, as through /tmp.
unshare --mount sh -euc '
    mount -t tmpfs -o mode=1777,size=50% memory "$0"
    TMPDIR="$0" exec "$@"' "$dir" "$@"
