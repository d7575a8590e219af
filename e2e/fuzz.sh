#!/bin/sh
# Runs every Fuzz target of the main module for a while, two at once, and stops at the first that finds something. What it
# found is then a file below testdata/fuzz: fix the code, and commit the file with it.
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

# The targets with pools flush at every step.
if [ -z "${FUZZ_IN_MEMORY:-}" ]; then
    FUZZ_IN_MEMORY=1 exec e2e/memory.sh e2e/fuzz.sh "$time" "$@"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# Packages with a target; to compile them all for `go test -list` would take much longer.
go list -f '{{$p := .ImportPath}}{{$d := .Dir}}{{range .TestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}' "$@" |
    while read -r package file; do
        sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(f \*testing\.F).*|$package $(dirname "$file") \1|p" "$file"
    done >"$work/targets"
[ -s "$work/targets" ] || { echo "fuzz.sh: no targets in $*" >&2; exit 1; }

# One program for all targets of a package.
cut -d' ' -f1 "$work/targets" | sort -u | while read -r package; do
    echo "fuzz: building the targets of $package"
    go test -c -fuzz . -o "$work/$(echo "$package" | tr / -).test" "$package"
done

# Each target has one worker, so that two targets share the processors of a small machine. Go now and then calls it a failure
# that the time is up (golang.org/issue/75804). A finding says more than that, and which input it was.
cat >"$work/run" <<'END'
work=$1 time=$2 package=$3 dir=$4 target=$5
log="$work/$target.log"
{
    status=0
    cd "$dir" && "$work/$(echo "$package" | tr / -).test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" \
        -test.fuzzminimizetime 10x -test.parallel "$workers" -test.fuzzcachedir "$(go env GOCACHE)/fuzz/$package" </dev/null 2>&1 || status=$?
    echo "$status" >"$log.status"
} | tee "$log" | sed -u "s|^|$target: |"
[ "$(cat "$log.status")" != 0 ] || exit 0
grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input' "$log" || exit 255 # xargs stops
echo "fuzz.sh: $target: that was the time being up, no finding"
END
workers=$((($(nproc) + 1) / 2))
export workers
echo "fuzz: $(wc -l <"$work/targets") targets, each for $time"
xargs -P 2 -L 1 sh -u "$work/run" "$work" "$time" <"$work/targets"
