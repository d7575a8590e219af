#!/bin/bash
# What the demos have in common; each begins by reading it. Each sets namespace, and defines explain, which shows what
# helps after a failure, and clean_up.
bold='' red='' plain=''
if [ -t 1 ]; then
    bold=$'\e[1;36m' red=$'\e[1;31m' plain=$'\e[0m'
fi
number=0 headline='getting ready'
harmless=2 # so many first steps leave nothing to clean up

step() {
    number=$((number + 1))
    headline=$1
    printf '\n%s%d. %s%s\n' "$bold" "$number" "$headline" "$plain"
}

# run shows a command line as one would type it, and runs just that.
run() {
    printf '%s$ %s%s\n' "$bold" "$1" "$plain"
    eval "$1"
}

# apply shows a manifest as one would type it, and applies it to a namespace, that of the demo if none is given.
apply() {
    run "e2e/kubectl.sh -n ${1:-$namespace} apply -f - <<'END'
$(cat)
END"
}

fail() {
    printf '%s%s%s\n' "$red" "$1" "$plain" >&2
    exit 1
}

# finish cleans up, and shows what helps where a step failed. The demo defines how: explain and clean_up.
finish() {
    local code=$?
    trap - EXIT
    if [ "$number" -gt "$harmless" ]; then
        if [ "$code" != 0 ]; then
            explain >&2 || true
        fi
        clean_up || code=1
    fi
    if [ "$code" != 0 ]; then
        printf '%sThe demo failed in step %d, "%s"; the reason stands above.%s\n' "$red" "$number" "$headline" "$plain" >&2
    fi
    exit "$code"
}
trap finish EXIT
trap 'exit 1' INT TERM

# await waits for a condition that kubectl cannot wait for.
await() {
    for _ in {1..360}; do
        if eval "$2"; then return; fi
        sleep 0.5
    done
    fail "$1 within 3 minutes"
}

on_node="go -C e2e run ./cmd/cluster exec" # NODE -- COMMAND

if [ -n "${KUBECONFIG:-}" ]; then
    echo "KUBECONFIG names another cluster. It is left alone: the demo has its own, on this machine."
    unset KUBECONFIG
fi
