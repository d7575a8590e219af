#!/bin/bash
# Shows what a user of the class local-path sees, on a real cluster of two nodes on this machine: a volume of before stays
# and grows, a new one is served without a helper pod, a claim waits while the other provisioner runs, and nothing is left
# behind. Called by `make demo-local-path`; it can be run again and again.
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/demo-common.sh
namespace=demo
base=/var/hpvolumes/local-path # of this cluster's nodes, which share everything else with this machine
k=e2e/kubectl.sh
set=daemonset/hostpath-provisioner-local-path

# claim prints a claim of the default class and a pod on the node that writes into it.
claim() { # NAME NODE TEXT
    cat <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  storageClassName: local-path
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: $2}
  containers:
    - name: $1
      image: localhost/hpp-e2e/busybox:latest
      imagePullPolicy: IfNotPresent
      command: [sh, -c, "echo $3 >>/data/hello; sleep infinity"]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: $1}}]
END
}

explain() {
    $k -n demo describe pvc,pod
    $k -n hostpath-provisioner logs -l k8s-app=hostpath-provisioner-local-path --prefix --tail=15
}

clean_up() {
    local failed=0
    delete_namespace || failed=1
    uninstall local-path || failed=1
    $k delete namespace local-path-storage --ignore-not-found --timeout=3m >/dev/null || failed=1
    $k -n hostpath-provisioner delete configmap local-path-config --ignore-not-found >/dev/null || failed=1
    $k delete storageclass local-path --ignore-not-found >/dev/null || failed=1
    leave_cluster || failed=1
    return $failed
}

step 'A Kubernetes cluster with two nodes (the first time it is built: minutes)'
start_cluster

step 'The agent: built, put into an image, loaded'
load_image
new_namespace

step 'A volume of before, as the local-path provisioner of k3s makes it: class, claim, directory and PV'
$k apply -f manifests/local-path/k3s/storageclass.yaml
claim old node-01 'from the agent' | sed '/^---$/,$d' | $k -n demo apply -f -
uid=$($k -n demo get pvc old -o jsonpath='{.metadata.uid}')
old=pvc-$uid
run "$on_node node-01 -- mkdir -p -m 0777 $base/${old}_demo_old"
run "$on_node node-01 -- sh -c 'echo from before >$base/${old}_demo_old/hello'"
apply <<END
apiVersion: v1
kind: PersistentVolume
metadata:
  name: $old
  annotations: {pv.kubernetes.io/provisioned-by: rancher.io/local-path}
spec:
  storageClassName: local-path
  accessModes: [ReadWriteOnce]
  capacity: {storage: 64Mi}
  persistentVolumeReclaimPolicy: Delete
  hostPath: {path: $base/${old}_demo_old, type: DirectoryOrCreate}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-01]}]}]}}
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: demo, name: old, uid: $uid}
END
run "$k -n demo wait --for=jsonpath='{.status.phase}'=Bound pvc/old --timeout=3m" || fail 'the claim is not bound'

step 'One overlay, here with a directory that each node of this cluster has of its own'
run "$k kustomize manifests/local-path/k3s | sed 's|/var/lib/rancher/k3s/storage|$base|' | $k apply -f -"
run "$k -n hostpath-provisioner rollout status $set --timeout=2m"

step 'The PV of before has an agent now, and its claim can grow'
await 'the PV is not adopted' "$k get pv $old -o jsonpath='{.metadata.annotations}' | grep -q hostpath-provisioner.kubevirt.io/pool"
run "$k get pv -L hostpath-provisioner.kubevirt.io/node"
run "$k -n demo patch pvc old --type merge -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"128Mi\"}}}}'"
run "$k -n demo wait --for=jsonpath='{.status.capacity.storage}'=128Mi pvc/old --timeout=3m" || fail 'the claim does not grow'
claim old node-01 'from a pod' | sed '1,/^---$/d' | $k -n demo apply -f -
run "$k -n demo wait --for=condition=Ready pod/old --timeout=3m" || fail 'the pod does not run'
await 'the pod has not written' "$on_node node-01 -- grep -q 'from a pod' $base/${old}_demo_old/hello"
run "$on_node node-01 -- cat $base/${old}_demo_old/hello"

step 'A new claim, on the other node: no helper pod, the same names'
claim new node-02 'from new' | apply
run "$k -n demo wait --for=condition=Ready pod/new --timeout=3m" || fail 'the pod does not run'
run "$k get pods --all-namespaces"
run "$k get pv"
run "$on_node node-02 -- ls -l $base"

step 'While the local-path provisioner runs too, new claims wait'
run "$k create namespace local-path-storage"
run "$k -n local-path-storage create deployment local-path-provisioner --image=localhost/hpp-e2e/busybox:latest -- sleep infinity"
await 'no event names the other provisioner' "$k get events --field-selector reason=OriginalRunning --all-namespaces | grep -q node-02"
claim late node-02 'from late' | $k -n demo apply -f -
await 'no event says why' "$k -n demo get events --field-selector involvedObject.name=late,type=Warning | grep -q 'runs too'"
run "$k -n demo get events --field-selector involvedObject.name=late,type=Warning"
run "$k delete namespace local-path-storage --timeout=3m"
run "$k -n demo wait --for=condition=Ready pod/late --timeout=3m" || fail 'the pod does not run'

step 'Deleted is deleted, of before and new'
volumes=$($k -n demo get pvc -o jsonpath='{.items[*].spec.volumeName}')
run "$k -n demo delete pod,pvc --all --timeout=3m"
for volume in $volumes; do
    await "PV $volume is not gone" "! $k get pv $volume >/dev/null 2>&1"
done
run "$k get pv"
run "$on_node node-01 -- ls -l $base"
run "$on_node node-02 -- ls -l $base"
