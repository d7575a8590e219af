#!/bin/bash
# Shows what a user sees, on a real cluster of two nodes on this machine: a claim, a pod that writes, a refusal, a claim
# that follows the scheduler, the same through CSI, a copy, and nothing left behind. Called by `make demo`; it can be run
# again and again.
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/demo-common.sh
namespace=demo

explain() {
    e2e/kubectl.sh -n demo describe pvc,pod
    e2e/kubectl.sh -n hostpath-provisioner logs -l app.kubernetes.io/name=hostpath-provisioner --prefix --tail=15
}

clean_up() {
    local failed=0
    delete_namespace || failed=1
    e2e/kubectl.sh delete storageclass demo-copies --ignore-not-found >/dev/null || failed=1
    uninstall csi || failed=1
    uninstall legacy || failed=1
    leave_cluster || failed=1
    return $failed
}

step 'A Kubernetes cluster with two nodes (the first time it is built: minutes)'
start_cluster

step 'The agent: built, put into an image, loaded, deployed'
run 'make --no-print-directory cluster-sync'
new_namespace

step 'A claim that names its node is served at once'
apply <<'END'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, annotations: {kubevirt.io/provisionOnNode: node-01}}
spec:
  storageClassName: hostpath-provisioner-immediate
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
END
run "e2e/kubectl.sh -n demo wait --for=jsonpath='{.status.phase}'=Bound pvc/data --timeout=3m" || fail 'the claim is not bound'
run 'e2e/kubectl.sh get pv'

step 'A pod that is not root writes into it'
apply <<'END'
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  securityContext: {runAsUser: 1000, runAsNonRoot: true}
  terminationGracePeriodSeconds: 0
  containers:
    - name: writer
      image: localhost/hpp-e2e/busybox:latest
      imagePullPolicy: IfNotPresent
      command: [sh, -c, "echo hello from $(id -u) >/data/hello; sleep infinity"]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
END
run 'e2e/kubectl.sh -n demo wait --for=condition=Ready pod/writer --timeout=3m' || fail 'the pod does not run'
volume=$(e2e/kubectl.sh -n demo get pvc data -o jsonpath='{.spec.volumeName}')
run "$on_node node-01 -- ls -ln /var/hpvolumes/$volume"
run "$on_node node-01 -- cat /var/hpvolumes/$volume/hello"
run "$on_node node-02 -- ls -l /var/hpvolumes"

step 'A claim that asks for too much is told why'
run "sed 's/name: on-node-01/name: huge/; s/1Gi/900Ti/' manifests/examples/claim-on-node.yaml | e2e/kubectl.sh -n demo apply -f -"
await 'no event says why' 'e2e/kubectl.sh -n demo get events | grep -q "900Ti requested"'
run 'e2e/kubectl.sh -n demo get events --field-selector involvedObject.name=huge,type=Warning'
run 'e2e/kubectl.sh hpp explain huge -n demo'

step 'A claim that waits for its pod: the scheduler chooses the node'
run "sed 's|image: .*|image: localhost/hpp-e2e/busybox:latest\n      imagePullPolicy: IfNotPresent|' manifests/examples/claim-and-pod.yaml | e2e/kubectl.sh -n demo apply -f -"
run 'e2e/kubectl.sh -n demo wait --for=condition=Ready pod/diary --timeout=3m' || fail 'the pod does not run'
run 'e2e/kubectl.sh -n demo get pods -o wide'

step 'The same agent as a CSI driver: one container takes over, and the old volumes stay'
run 'e2e/kubectl.sh delete -f manifests/legacy/daemonset.yaml -f manifests/legacy/rbac.yaml --cascade=foreground'
run 'e2e/kubectl.sh apply -k manifests/examples/both-modes'
run 'e2e/kubectl.sh -n hostpath-provisioner rollout status daemonset/hostpath-provisioner-csi --timeout=2m'
run 'e2e/kubectl.sh get csinodes'
run 'e2e/kubectl.sh -n hostpath-provisioner get csistoragecapacities'

step 'A CSI claim: the scheduler knows what each node has available'
run "sed 's|image: .*|image: localhost/hpp-e2e/busybox:latest\n      imagePullPolicy: IfNotPresent|' manifests/examples/csi-claim-and-pod.yaml | e2e/kubectl.sh -n demo apply -f -"
run 'e2e/kubectl.sh -n demo wait --for=condition=Ready pod/journal --timeout=3m' || fail 'the pod does not run'
run 'e2e/kubectl.sh -n demo get pods -o wide'
run 'e2e/kubectl.sh get pv'

step 'A copy of that claim, while the pod writes: this filesystem shares no blocks, so the class has to permit that every byte is written'
apply <<'END'
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: demo-copies}
provisioner: kubevirt.io.hostpath-provisioner
parameters: {storagePool: local, copy: allowed, consistency: fuzzy}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: copy}
spec:
  storageClassName: demo-copies
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
  dataSource: {kind: PersistentVolumeClaim, name: journal}
END
run "e2e/kubectl.sh -n demo wait --for=jsonpath='{.status.phase}'=Bound pvc/copy --timeout=3m" || fail 'the copy is not bound'
journal_node=$(e2e/kubectl.sh -n demo get pod journal -o jsonpath='{.spec.nodeName}')
volume=$(e2e/kubectl.sh -n demo get pvc copy -o jsonpath='{.spec.volumeName}')
run "$on_node $journal_node -- head -n 1 /var/hpvolumes/csi/$volume/journal"

step 'All nodes at a glance, and what one knows of its volumes'
run 'e2e/kubectl.sh hpp status'
agent=$(e2e/kubectl.sh -n hostpath-provisioner get pod -o name --field-selector "spec.nodeName=$journal_node")
run "e2e/kubectl.sh -n hostpath-provisioner exec $agent -- /hostpath-provisioner inspect"

step 'Deleted is deleted'
volumes=$(e2e/kubectl.sh -n demo get pvc -o jsonpath='{.items[*].spec.volumeName}')
run 'e2e/kubectl.sh -n demo delete pod,pvc --all --timeout=3m'
for volume in $volumes; do
    await "PV $volume is not gone" "! e2e/kubectl.sh get pv $volume >/dev/null 2>&1"
    for node in node-01 node-02; do
        pool=$($cluster node-dir "$node")
        for directory in "$pool/$volume" "$pool/csi/$volume"; do
            [ ! -e "$directory" ] || fail "the directory $volume is still on $node"
        done
    done
done
run 'e2e/kubectl.sh get pv'
run "$on_node node-01 -- ls -lR /var/hpvolumes"
run "$on_node node-02 -- ls -lR /var/hpvolumes"

step 'Your turn'
cat <<'END'
make cluster-sync                      builds the image, and deploys manifests/legacy again
ls manifests/examples                  more to try; README.md explains
e2e/kubectl.sh get nodes               kubectl for this cluster
bin/cluster status                     processes and logs
make cluster-down                      ends the cluster and leaves nothing behind
END
