#!/bin/sh
# Runs the kubectl that belongs to the local cluster, as its administrator.
#
#   e2e/kubectl.sh get nodes
#
# With `make build` it has the plugin of the tree: e2e/kubectl.sh hpp status.
#
# KUBECONFIG, when it is set and not empty, names another cluster; K8S_VERSION then chooses the kubectl.
set -eu

state=${HPP_E2E_STATE:-/var/lib/hostpath-provisioner-e2e}
cache=${HPP_E2E_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hostpath-provisioner-e2e}
version=${K8S_VERSION:-}

if [ -z "${KUBECONFIG:-}" ]; then
    KUBECONFIG=$state/control-plane/admin.kubeconfig
    if [ ! -r "$KUBECONFIG" ]; then
        echo "kubectl.sh: no cluster is up in $state; start one with 'go -C e2e run ./cmd/cluster up', or set KUBECONFIG" >&2
        exit 1
    fi
    version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$state/cluster.json")
fi
export KUBECONFIG

kubectl=$cache/${version:-v1.34.4}/kubectl
if [ ! -x "$kubectl" ]; then
    echo "kubectl.sh: $kubectl is not built yet; run 'go -C e2e run ./cmd/cluster build'" >&2
    exit 1
fi
case $(uname -m) in aarch64) arch=arm64 ;; *) arch=amd64 ;; esac
PATH=$(dirname "$0")/../bin/linux-$arch:$PATH exec "$kubectl" "$@"
