#!/bin/bash
# Shows what is left of a lost cluster, on a real one of two nodes on this machine: claims with data on both nodes, the
# control plane with its etcd goes, a new cluster gets the disks, and one command makes the claims again. Called by
# `make demo-recover`; it can be run again and again.
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/demo-common.sh
namespace=demo
k=e2e/kubectl.sh
disks=

explain() {
    $k -n demo describe pvc
    $k get pv -o wide
    $k -n hostpath-provisioner logs -l app.kubernetes.io/name=hostpath-provisioner --prefix --tail=15
}

clean_up() {
    local failed=0
    [ -z "$disks" ] || rm -rf "$disks"
    delete_namespace || failed=1
    uninstall legacy || failed=1
    leave_cluster || failed=1
    return $failed
}

claim() { # NAME NODE
    cat <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1, labels: {app: $1}, annotations: {kubevirt.io/provisionOnNode: $2}}
spec:
  storageClassName: hostpath-provisioner-immediate
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
END
}

bound() { # CLAIM
    run "$k -n demo wait --for=jsonpath='{.status.phase}'=Bound pvc/$1 --timeout=3m" || fail "claim $1 is not bound"
}

cluster_uid() { $k get namespace kube-system -o jsonpath='{.metadata.uid}'; }

step 'A Kubernetes cluster with two nodes (the first time it is built: minutes)'
start_cluster

step 'The agent: built, put into an image, loaded, deployed'
run 'make --no-print-directory build cluster-sync'
new_namespace

step 'Claims on both nodes, with data'
claim ledger node-01 | apply
claim stock node-02 | apply
bound ledger
bound stock
ledger=$($k -n demo get pvc ledger -o jsonpath='{.spec.volumeName}')
stock=$($k -n demo get pvc stock -o jsonpath='{.spec.volumeName}')
run "$on_node node-01 -- sh -c 'head -c 16M /dev/urandom >/var/hpvolumes/$ledger/data'"
run "$on_node node-02 -- sh -c 'head -c 16M /dev/urandom >/var/hpvolumes/$stock/data'"
sums() {
    $on_node node-01 -- sha256sum "/var/hpvolumes/$ledger/data"
    $on_node node-02 -- sha256sum "/var/hpvolumes/$stock/data"
}
before=$(sums)
echo "$before"
# The agents write to the records what PV and claim have.
recorded() { $on_node "$1" -- grep -q '"claim"' "/var/hpvolumes/.hostpath-provisioner/records/$2"; }
await "the record of $ledger lacks its claim" "recorded node-01 $ledger"
await "the record of $stock lacks its claim" "recorded node-02 $stock"
old=$(cluster_uid)

step 'The cluster is lost: control plane, etcd and nodes. The disks are not'
# The same files, by another name: what the cluster has is removed with it.
disks=$(mktemp -d "${HPP_E2E_STATE:-/var/lib/hostpath-provisioner-e2e}-disks-XXXXXX")
for node in node-01 node-02; do
    run "cp -al $($cluster node-dir $node) $disks/$node"
done
run 'make --no-print-directory cluster-down'

step 'A new cluster, with the disks of the lost one'
start_cluster
for node in node-01 node-02; do
    run "find $disks/$node -mindepth 1 -maxdepth 1 -exec mv -t $($cluster node-dir $node) {} +"
done
run 'make --no-print-directory cluster-sync'
await 'the agents do not run' "$k -n hostpath-provisioner rollout status daemonset/hostpath-provisioner --timeout=1s >/dev/null"
new_namespace
[ "$(cluster_uid)" != "$old" ] || fail 'it is the old cluster'
run "$k -n demo get pvc,pv"

step 'The plan: the volumes are of another cluster, and are left until that is named'
run "$k hpp recover --all --dry-run" || fail 'there is no plan'

step 'One command, and every claim is bound'
run "$k hpp recover --all --from-cluster=$old --yes" || fail 'not all is recovered'
bound ledger
bound stock
run "$k -n demo get pvc --show-labels"
run "$k get pv"
policies=$($k get pv "$ledger" "$stock" -o jsonpath='{.items[*].spec.persistentVolumeReclaimPolicy}')
[ "$policies" = 'Delete Delete' ] || fail "the reclaim policies are $policies"
run sums
[ "$(sums)" = "$before" ] || fail 'the data is another'

step 'Once more: nothing is left to do'
run "$k hpp recover --all --yes" || fail 'something is left'

step 'Cleaned up: the volumes go with their claims'
