#!/bin/bash
# What the demos have in common; each begins by reading it. Each sets namespace, and defines explain, which shows what
# helps after a failure, and clean_up.
bold='' red='' plain=''
if [ -t 1 ]; then
    bold=$'\e[1;36m' red=$'\e[1;31m' plain=$'\e[0m'
fi
number=0 headline='getting ready'
harmless=1 # so many first steps leave nothing to clean up

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
        if eval "$2" 2>/dev/null; then return; fi
        sleep 0.5
    done
    fail "$1 within 3 minutes"
}

cluster=bin/cluster             # make builds it before it starts the cluster
on_node="$cluster exec"         # NODE -- COMMAND

# start_cluster is the first step of each demo.
start_cluster() {
    run 'make --no-print-directory cluster-up NODES=2'
}

# load_image builds the image and loads it onto the nodes. It removes agents that others deployed: they have the pool.
load_image() { # arguments of make
    run "make --no-print-directory image${1:+ $*}"
    run "$cluster load _artifacts/hostpath-provisioner.tar"
    e2e/kubectl.sh -n hostpath-provisioner delete daemonset --all --cascade=foreground --ignore-not-found >/dev/null
}

# new_namespace makes the namespace of the demo. One that is there is of an interrupted run.
new_namespace() {
    e2e/kubectl.sh delete namespace "$namespace" --ignore-not-found --timeout=3m >/dev/null
    e2e/kubectl.sh create namespace "$namespace" >/dev/null
}

# delete_namespace removes the demo's claims and pods, and waits for the agents to delete the volumes.
delete_namespace() {
    e2e/kubectl.sh delete namespace "$namespace" --ignore-not-found --timeout=3m >/dev/null && volumes_deleted
}

volumes_deleted() {
    (await "the volumes of namespace $namespace are not deleted" \
        "! e2e/kubectl.sh get pv -o jsonpath='{.items[*].spec.claimRef.namespace}' | grep -qw $namespace")
}

# uninstall removes a form of the agent by its directory below manifests/uninstall.
uninstall() {
    e2e/kubectl.sh delete -k "manifests/uninstall/$1" --ignore-not-found --cascade=foreground --timeout=3m >/dev/null
}

# leave_cluster ends each clean-up. Unless there are agents, claims or PVs of others, it removes the agents' namespace and what is left
# in the pools. These are mounts of the nodes; nothing else of the machine is touched.
leave_cluster() {
    local failed=0 node rest
    rest=$(e2e/kubectl.sh get pv,pvc,daemonset,deployment --all-namespaces -o name) || return 1
    if [ -n "$rest" ]; then
        printf 'The pools are left alone, since the cluster has\n%s\n' "$rest" >&2
        return 0
    fi
    e2e/kubectl.sh delete namespace hostpath-provisioner --ignore-not-found --timeout=3m >/dev/null || failed=1
    e2e/kubectl.sh delete csidriver kubevirt.io.hostpath-provisioner --ignore-not-found >/dev/null || failed=1
    for node in node-01 node-02; do
        $on_node "$node" -- sh -euc 'for pool in /var/hpvolumes /var/kubernetes; do
            mountpoint -q "$pool" && find "$pool" -xdev -mindepth 1 -delete
        done' || failed=1
    done
    return $failed
}

if [ -n "${KUBECONFIG:-}" ]; then
    echo "KUBECONFIG names another cluster. It is left alone: the demo has its own, on this machine."
    unset KUBECONFIG
fi
