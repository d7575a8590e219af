#!/bin/bash
# Shows a cluster of one machine, on the cluster of this machine whose second node is cordoned: a claim, a pod, its file,
# and nothing left behind. Called by `make demo-single-node`; it can be run again and again.
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/demo-common.sh
namespace=default

explain() {
    e2e/kubectl.sh describe pvc,pod
    e2e/kubectl.sh -n hostpath-provisioner logs -l app.kubernetes.io/name=hostpath-provisioner --prefix --tail=15
}

# clean_up removes what the demo made, and leaves the cluster.
clean_up() {
    local failed=0
    e2e/kubectl.sh delete -f manifests/single-node/test-pod.yaml -f manifests/single-node/test-claim.yaml --ignore-not-found --timeout=3m >/dev/null || failed=1
    volumes_deleted || failed=1
    uninstall single-node || failed=1
    e2e/kubectl.sh uncordon node-02 >/dev/null || failed=1
    leave_cluster || failed=1
    return $failed
}

step 'A Kubernetes cluster with two nodes (the first time it is built: minutes)'
start_cluster

step 'One node that pods can run on; the agent: built, put into an image, loaded, deployed'
run 'e2e/kubectl.sh cordon node-02'
load_image
run 'e2e/kubectl.sh apply -k manifests/single-node'
await 'node-01 has no pod of the agent' '[ -n "$(e2e/kubectl.sh -n hostpath-provisioner get pod -o name --field-selector spec.nodeName=node-01)" ]'
run 'e2e/kubectl.sh -n hostpath-provisioner wait --for=condition=Ready pod --field-selector spec.nodeName=node-01 --timeout=3m'

step 'A claim: no class, no annotation, no pod'
run 'cat manifests/single-node/test-claim.yaml'
run 'e2e/kubectl.sh apply -f manifests/single-node/test-claim.yaml'
run "e2e/kubectl.sh wait --for=jsonpath='{.status.phase}'=Bound pvc/hostpath-test-claim --timeout=3m"
run 'e2e/kubectl.sh get pv'

step 'A pod writes a file'
run "sed 's|image: .*|image: localhost/hpp-e2e/busybox:latest\n      imagePullPolicy: IfNotPresent|' manifests/single-node/test-pod.yaml | e2e/kubectl.sh apply -f -"
run "e2e/kubectl.sh wait --for=jsonpath='{.status.phase}'=Succeeded pod/hostpath-test-pod --timeout=3m"
run "$on_node node-01 -- sh -c 'ls /var/kubernetes/default-hostpath-test-claim-pvc-*/'"
$on_node node-01 -- sh -c 'ls /var/kubernetes/default-hostpath-test-claim-pvc-*/' | grep -qx SUCCESS

step 'Deleted is deleted'
volume=$(e2e/kubectl.sh get pvc hostpath-test-claim -o jsonpath='{.spec.volumeName}')
run 'e2e/kubectl.sh delete -f manifests/single-node/test-pod.yaml -f manifests/single-node/test-claim.yaml'
run "e2e/kubectl.sh wait --for=delete pv/$volume --timeout=3m"
run "$on_node node-01 -- ls -l /var/kubernetes"
[ -z "$($on_node node-01 -- ls /var/kubernetes)" ]
