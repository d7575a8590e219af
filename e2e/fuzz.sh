#!/bin/sh
# Runs every Fuzz target of the main module for a while, one after the other, and stops at the
# first that finds something. What it found is then a file below testdata/fuzz: mend the code,
# and commit the file with it.
#
#   e2e/fuzz.sh 60s               # all targets, a minute each
#   e2e/fuzz.sh 10m ./volume/...  # those of some packages
#
# The first run builds everything with the fuzzer's instruments, which takes minutes.
set -eu
time=${1:?how long each target runs, such as 60s}
shift
[ $# -gt 0 ] || set -- ./...
cd "$(dirname "$0")/.."

# The targets with pools flush at every step. Memory does that a hundred times as fast, and what is
# mounted in a namespace of its own goes with it, also the mounts that a killed target leaves.
if [ "$(id -u)" = 0 ] && [ -z "${FUZZ_DIR:-}" ]; then
    FUZZ_DIR=$(mktemp -d)
    export FUZZ_DIR
    trap 'rmdir "$FUZZ_DIR"' EXIT
    trap 'exit 1' INT TERM HUP
    unshare --mount e2e/fuzz.sh "$time" "$@"
    exit
fi
if [ -n "${FUZZ_DIR:-}" ]; then
    mount -t tmpfs -o mode=700,size=50% fuzz "$FUZZ_DIR"
    export GOTMPDIR="${TMPDIR:-/tmp}" TMPDIR="$FUZZ_DIR"
fi

# Packages with a target; to compile them all for `go test -list` would take much longer.
targets=$(go list -f '{{$p := .ImportPath}}{{$d := .Dir}}{{range .TestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}' "$@" |
    while read -r package file; do
        sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(f \*testing\.F).*|$package \1|p" "$file"
    done)
[ -n "$targets" ] || { echo "fuzz.sh: no targets in $*" >&2; exit 1; }

log=$(mktemp)
trap 'rm -f "$log" "$log.status"' EXIT

# Go now and then calls it a failure that the time is up (golang.org/issue/75804). A finding says
# more than that, and which input it was.
run() {
    {
        status=0
        go test "$1" -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x </dev/null 2>&1 || status=$?
        echo "$status" >"$log.status"
    } | tee "$log"
    [ "$(cat "$log.status")" != 0 ] || return 0
    grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input' "$log" || return 1
    echo "fuzz.sh: that was the time being up, no finding"
}

total=$(echo "$targets" | wc -l)
n=0
echo "$targets" | while read -r package target; do
    n=$((n + 1))
    echo "fuzz $n/$total: $target in $package, for $time"
    run "$package" "$target"
done
