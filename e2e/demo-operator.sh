#!/bin/bash
# Shows the operator on a real cluster of two nodes on this machine: three commands until a pod writes, a change that is
# repaired, an upgrade under the pod, a resource that waits for its volume, and nothing left behind. Called by
# `make demo-operator`; it can be run again and again.
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/demo-common.sh
namespace=demo
k=e2e/kubectl.sh
cr=hostpathprovisioner/hostpath-provisioner
set=daemonset/hostpath-provisioner-csi
force=hostpathprovisioner.kubevirt.io/force-deletion=true
base=$(awk '/newName:/{print $2}' manifests/image/kustomization.yaml)
old=$base:$(awk '/newTag:/{print $2}' manifests/image/kustomization.yaml) new=$base:demo-upgrade

explain() {
    $k -n demo describe pvc,pod
    $k get $cr -o yaml
    $k -n hostpath-provisioner get pods -o wide
    $k -n hostpath-provisioner logs -l name=hostpath-provisioner-operator --prefix --tail=15
}

# clean_up removes the resource before its operator, which removes the finalizer.
clean_up() {
    local failed=0
    $k delete namespace demo --ignore-not-found --timeout=1m >/dev/null || failed=1
    if $k get $cr >/dev/null 2>&1; then
        $k annotate $cr $force --overwrite >/dev/null || failed=1
        $k delete $cr --timeout=1m >/dev/null || failed=1
    fi
    $k delete storageclass hostpath-csi --ignore-not-found >/dev/null || failed=1
    $k delete -k manifests/operator --ignore-not-found --timeout=1m >/dev/null || failed=1
    return $failed
}

lines() { $k -n demo exec journal -- sh -c 'wc -l </data/journal'; }
installed() { run "$k wait $cr --for=jsonpath='{.status.conditions[0].reason}'=Complete --timeout=3m" || fail 'the agents are not ready'; }

step 'A Kubernetes cluster with two nodes (the first time it is built: minutes)'
run 'make --no-print-directory cluster-up NODES=2'

step 'The image with the operator and the agent, in two versions: built, loaded'
for image in "$new" "$old"; do # the last one is what other targets expect
    run "make --no-print-directory image VERSION=${image##*:} IMAGE=$image"
    run 'go -C e2e run ./cmd/cluster load ../_artifacts/hostpath-provisioner.tar'
done
$k -n hostpath-provisioner delete daemonset --all --cascade=foreground --ignore-not-found >/dev/null # of other demos: they have the pool
$k delete namespace demo --ignore-not-found --timeout=1m >/dev/null
$k create namespace demo >/dev/null

step 'First command: the operator'
run "$k apply -k manifests/operator"

step 'Second command: the resource, which names the pool'
run "$k apply -f manifests/examples/operator-pool.yaml"
installed
run "$k get hostpathprovisioner"
run "$k -n hostpath-provisioner get pods -o wide"

step 'Third command: a claim and its pod'
run "sed 's|image: .*|image: localhost/hpp-e2e/busybox:latest\n      imagePullPolicy: IfNotPresent|; s/sleep 10/sleep 1/' manifests/examples/csi-claim-and-pod.yaml | $k -n demo apply -f -"
run "$k -n demo wait --for=condition=Ready pod/journal --timeout=60s" || fail 'the pod does not run'
run "$k get pv"
await 'the pod does not write' '[ "$(lines)" -gt 0 ]'
run "$k -n demo exec journal -- tail -n 1 /data/journal"

step 'The operator repairs what others change'
run "$k -n hostpath-provisioner set image $set hostpath-provisioner=example.com/other"
run "$k delete csidriver kubevirt.io.hostpath-provisioner"
await 'the CSIDriver is not there' "$k get csidriver kubevirt.io.hostpath-provisioner >/dev/null 2>&1"
await 'the image is another' "! $k -n hostpath-provisioner get $set -o jsonpath={..image} | grep -q example.com"
installed
run "$k get events --field-selector involvedObject.kind=HostPathProvisioner"

step 'An upgrade: another image for the operator; the agents follow, and the pod writes on'
before=$(lines)
pod=$($k -n demo get pod journal -o jsonpath='{.metadata.uid}')
run "$k kustomize manifests/operator | sed 's|$old|$new|' | $k apply -f -"
run "$k wait $cr --for=jsonpath='{.status.observedVersion}'=${new##*:} --timeout=3m" || fail 'the agents are not upgraded'
run "$k get hostpathprovisioner"
run "$k -n hostpath-provisioner get $set -o jsonpath='{..image}{\"\\n\"}'"
[ "$($k -n demo get pod journal -o jsonpath='{.metadata.uid} {.status.containerStatuses[0].restartCount}')" = "$pod 0" ] || fail 'the pod was restarted'
await 'the pod does not write' "[ \$(lines) -gt $before ]"
run "$k -n demo exec journal -- tail -n 1 /data/journal"

step 'The resource is deleted while the volume exists: it waits and names the volume'
run "$k delete $cr --wait=false"
run "$k wait $cr --for=jsonpath='{.status.conditions[0].reason}'=VolumesInUse --timeout=30s" || fail 'it does not wait'
run "$k get $cr -o jsonpath='{.status.conditions[0].message}{\"\\n\"}'"
run "$k -n demo get pod journal"

step 'The volume is deleted: the agents go, and the resource'
run "$k -n demo delete pod,pvc --all --timeout=60s"
run "$k wait $cr --for=delete --timeout=2m" || fail 'the resource is still there'
run "$k -n hostpath-provisioner get daemonset,role,rolebinding,csistoragecapacities"
if $k get csidriver kubevirt.io.hostpath-provisioner >/dev/null 2>&1; then fail 'the CSIDriver is still there'; fi
run "$k delete -k manifests/operator --timeout=1m"
for node in node-01 node-02; do
    run "$on_node $node -- ls -l /var/hpvolumes/csi"
done
