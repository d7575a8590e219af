#!/bin/bash
# Shows the operator on a real cluster of two nodes on this machine: three commands until a pod writes, a change that is
# repaired, an upgrade under the pod, a pool on claims, a node that is gone, a resource that waits for its volume, and nothing
# left behind. Called by `make demo-operator`; it can be run again and again.
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

gone='' # the node that is gone
no_holders="[ -z \"\$($k -n hostpath-provisioner get deployments -l kubevirt.io.hostpath-provisioner/storagePool -o name)\" ]"

# clean_up removes the resource before its operator, which removes the finalizer.
clean_up() {
    local failed=0
    if [ -n "$gone" ]; then $cluster start-kubelet "$gone" || failed=1; fi
    $k uncordon -l kubernetes.io/os=linux >/dev/null || failed=1
    delete_namespace || failed=1
    if $k get $cr >/dev/null 2>&1; then
        # The pool on claims goes first: it is on volumes of the agents, which go with the resource.
        $k patch $cr --type=merge -p '{"spec":{"storagePools":[{"name":"local","path":"/var/hpvolumes"}]}}' >/dev/null || failed=1
        (await 'the pool is still mounted' "$no_holders") || failed=1
        $k -n hostpath-provisioner delete pvc --all --timeout=3m >/dev/null || failed=1
        $k annotate $cr $force --overwrite >/dev/null || failed=1
        $k delete $cr --timeout=3m >/dev/null || failed=1
    fi
    $k delete storageclass hostpath-csi on-array replicated --ignore-not-found >/dev/null || failed=1
    $k -n hostpath-provisioner delete configmap hostpath-provisioner-settings --ignore-not-found >/dev/null || failed=1
    uninstall operator || failed=1
    $k delete crd hostpathprovisioners.hostpathprovisioner.kubevirt.io --ignore-not-found --timeout=3m >/dev/null || failed=1
    leave_cluster || failed=1
    return $failed
}

lines() { $k -n demo exec journal -- sh -c 'wc -l </data/journal'; }
installed() { run "$k wait $cr --for=jsonpath='{.status.conditions[0].reason}'=Complete --timeout=3m" || fail 'the agents are not ready'; }

step 'A Kubernetes cluster with two nodes (the first time it is built: minutes)'
start_cluster

step 'The image with the operator and the agent, in two versions: built, loaded'
for image in "$new" "$old"; do # the last one is what other targets expect
    load_image VERSION="${image##*:}" IMAGE="$image"
done
new_namespace

step 'First command: the operator'
run "$k apply -k manifests/operator"

step 'Second command: the resource, which names the pool'
run "$k apply -f manifests/examples/operator-pool.yaml"
installed
run "$k get hostpathprovisioner"
run "$k -n hostpath-provisioner get pods -o wide"

step 'Third command: a claim and its pod'
run "sed 's|image: .*|image: localhost/hpp-e2e/busybox:latest\n      imagePullPolicy: IfNotPresent|; s/sleep 10/sleep 1/' manifests/examples/csi-claim-and-pod.yaml | $k -n demo apply -f -"
run "$k -n demo wait --for=condition=Ready pod/journal --timeout=3m" || fail 'the pod does not run'
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

step 'A pool on claims: on each node a claim, and the pod that mounts it where the pool is'
run "$k patch $cr --type=json -p '[{\"op\": \"add\", \"path\": \"/spec/storagePools/-\", \"value\": {\"name\": \"array\", \"path\": \"/var/kubernetes/array\",
  \"pvcTemplate\": {\"storageClassName\": \"hostpath-csi\", \"accessModes\": [\"ReadWriteOnce\"], \"resources\": {\"requests\": {\"storage\": \"1Gi\"}}}}}]'"
run "$k wait $cr --for=jsonpath='{.status.storagePoolStatuses[?(@.name==\"array\")].phase}'=Ready --timeout=2m" || fail 'the pool is not ready'
run "$k get $cr -o custom-columns='POOL:.status.storagePoolStatuses[*].name,PHASE:.status.storagePoolStatuses[*].phase,READY:.status.storagePoolStatuses[*].currentReady'"
run "$k -n hostpath-provisioner get pvc,deployments -l kubevirt.io.hostpath-provisioner/storagePool"
run "$on_node node-01 -- findmnt -n -o TARGET,SOURCE,FSTYPE /var/kubernetes/array/csi"

step 'A volume of that pool'
apply <<END
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: on-array}
provisioner: kubevirt.io.hostpath-provisioner
volumeBindingMode: WaitForFirstConsumer
parameters: {storagePool: array}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: nested}
spec: {storageClassName: on-array, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: nested}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: writer
      image: localhost/hpp-e2e/busybox:latest
      imagePullPolicy: IfNotPresent
      command: [sh, -c, "echo from the array >/data/file && sleep infinity"]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: nested}}]
END
run "$k -n demo wait --for=condition=Ready pod/nested --timeout=3m" || fail 'the pod does not run'
run "$on_node $($k -n demo get pod nested -o jsonpath='{.spec.nodeName}') -- grep -r array /var/kubernetes/array/csi --include=file"

step 'The pool is removed: it is unmounted everywhere; its claims are yours to delete'
run "$k -n demo delete pod/nested pvc/nested --timeout=3m"
run "$k patch $cr --type=json -p '[{\"op\": \"remove\", \"path\": \"/spec/storagePools/1\"}]'"
await 'the pool is still mounted' "$no_holders"
installed
for node in node-01 node-02; do
    if $on_node $node -- findmnt -n /var/kubernetes/array/csi 2>/dev/null; then fail "the pool is mounted on $node"; fi
done
run "$k -n hostpath-provisioner delete pvc -l kubevirt.io.hostpath-provisioner/storagePool --timeout=3m"

step 'A database whose class lets go of the volumes of a node that is gone'
apply hostpath-provisioner <<END
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: replicated
  annotations: {hostpath-provisioner.kubevirt.io/node-gone: release}
provisioner: kubevirt.io.hostpath-provisioner
volumeBindingMode: WaitForFirstConsumer
parameters: {storagePool: local}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hostpath-provisioner-settings, namespace: hostpath-provisioner}
data: {nodeGoneGrace: 5s}
END
there=$($k -n demo get pod journal -o jsonpath='{.spec.nodeName}')
run "$k cordon $there"
run "sed 's|image: .*|image: localhost/hpp-e2e/busybox:latest\n          imagePullPolicy: IfNotPresent|; s/replicas: 2/replicas: 1/; s/storageClassName: .*/storageClassName: replicated/' manifests/examples/statefulset.yaml | $k -n demo apply -f -"
await 'the database does not run' "$k -n demo wait --for=condition=Ready pod/ledger-0 --timeout=1s >/dev/null 2>&1"
run "$k uncordon $there"
gone=$($k -n demo get pod ledger-0 -o jsonpath='{.spec.nodeName}')
lost=$($k -n demo get pvc data-ledger-0 -o jsonpath='{.spec.volumeName}')
run "$k -n demo get pod,pvc -o wide"

step "Its node dies, and is given up"
run "$cluster stop-kubelet $gone"
run "$k wait node/$gone --for=condition=Ready=Unknown --timeout=2m" || fail 'the node is still ready'
began=$SECONDS
run "$k taint node $gone node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
run "$k -n demo wait pod/ledger-0 --for=delete --timeout=90s" || true # the pod that takes its place has the same name
run "$k delete node $gone"
run "$k wait pv/$lost --for=delete --timeout=3m" || fail 'the volume is still there'
await 'the database does not run elsewhere' "$k -n demo wait --for=condition=Ready pod/ledger-0 --timeout=1s >/dev/null 2>&1"
echo "The database runs elsewhere $((SECONDS - began)) s after the taint, with an empty volume."
run "$k -n demo get pod,pvc -o wide"

step 'The node comes back: the old volume is there, as an orphan that nothing deletes unasked'
run "$cluster start-kubelet $gone"
installed
agent=$($k -n hostpath-provisioner get pods -l k8s-app=hostpath-provisioner --field-selector spec.nodeName=$gone -o name | head -1)
run "$k -n hostpath-provisioner wait $agent --for=condition=Ready --timeout=3m" || fail 'the agent is not ready'
await 'no orphan is reported' "$k -n hostpath-provisioner exec ${agent#pod/} -- /hostpath-provisioner inspect | grep -q $lost"
run "$k -n hostpath-provisioner exec ${agent#pod/} -- /hostpath-provisioner inspect"
run "$k -n demo delete statefulset,service ledger"
run "$k -n demo delete pvc data-ledger-0 --timeout=3m"
run "$k -n hostpath-provisioner delete configmap hostpath-provisioner-settings"
installed

step 'The resource is deleted while the volume exists: it waits and names the volume'
run "$k delete $cr --wait=false"
run "$k wait $cr --for=jsonpath='{.status.conditions[0].reason}'=VolumesInUse --timeout=3m" || fail 'it does not wait'
run "$k get $cr -o jsonpath='{.status.conditions[0].message}{\"\\n\"}'"
run "$k -n demo get pod journal"

step 'The volume is deleted: the agents go, and the resource'
run "$k -n demo delete pod,pvc --all --timeout=3m"
run "$k wait $cr --for=delete --timeout=2m" || fail 'the resource is still there'
run "$k -n hostpath-provisioner get daemonset,role,rolebinding,csistoragecapacities"
if $k get csidriver kubevirt.io.hostpath-provisioner >/dev/null 2>&1; then fail 'the CSIDriver is still there'; fi
run "$k delete -k manifests/uninstall/operator --timeout=3m"
run "$k delete crd hostpathprovisioners.hostpathprovisioner.kubevirt.io --timeout=3m"
$k get namespace hostpath-provisioner >/dev/null || fail 'the namespace is gone, with everything in it'
gone=''
for node in node-01 node-02; do
    run "$on_node $node -- ls -l /var/hpvolumes/csi"
done
