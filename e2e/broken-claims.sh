#!/bin/bash
# Prepares six claims that wait, each for another reason, on the local cluster, and prints what to run. It is for trying
# `kubectl hpp explain`: a reader who does not know this file should find each cause with one command.
#
#   make cluster-up && e2e/broken-claims.sh         prepares them in the namespace broken
#   e2e/broken-claims.sh clean                      removes them, and the agents
set -euo pipefail
cd "$(dirname "$0")/.."

cluster=bin/cluster
namespace=hostpath-provisioner
kubectl=e2e/kubectl.sh
agents=daemonset/hostpath-provisioner-csi

# on_nodes runs a command in the mount namespace of both nodes.
on_nodes() { for node in node-01 node-02; do $cluster exec $node -- "$@"; done; }

unmount() {
    for pool in fast bare; do
        for node in node-01 node-02; do
            while $cluster exec $node -- umount "/var/hpvolumes/$pool" 2>/dev/null; do :; done
        done
    done
}

if [ "${1:-}" = clean ]; then
    $kubectl delete namespace broken --ignore-not-found --timeout=2m
    $kubectl delete storageclass broken-bare broken-fast --ignore-not-found
    unmount
    $kubectl delete -k manifests/examples/both-modes --ignore-not-found --cascade=foreground >/dev/null
    exit
fi

# host prints the hostname of a node.
host() { $kubectl get node "$1" -o jsonpath='{.metadata.labels.kubernetes\.io/hostname}'; }

# class makes a class of the CSI driver for a pool.
class() {
    $kubectl apply -f - <<END
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: broken-$1}
provisioner: kubevirt.io.hostpath-provisioner
volumeBindingMode: WaitForFirstConsumer
parameters: {storagePool: $1, quota: $2}
END
}

# claim makes a claim of a class and a size, and a pod on a node that uses it.
claim() {
    $kubectl -n broken apply -f - <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  storageClassName: $2
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: $3}}
---
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: $4}
  containers:
    - name: main
      image: localhost/hpp-e2e/busybox:latest
      imagePullPolicy: IfNotPresent
      command: [sleep, infinity]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: $1}}]
END
}

make --no-print-directory image bin/cluster >/dev/null
$cluster load "_artifacts/hostpath-provisioner.tar"
on_nodes mkdir -p /var/hpvolumes/bare /var/hpvolumes/fast
on_nodes mount -t tmpfs -o size=64m tmpfs /var/hpvolumes/bare
$kubectl apply -k manifests/examples/both-modes
$kubectl -n $namespace set env $agents \
    'DATADIR=[{"name":"local","path":"/var/hpvolumes/csi"},{"name":"bare","path":"/var/hpvolumes/bare"},{"name":"fast","path":"/var/hpvolumes/fast"}]'
$kubectl -n $namespace rollout status $agents --timeout=3m
$kubectl create namespace broken --dry-run=client -o yaml | $kubectl apply -f -
class bare required
class fast best-effort

# The agent of node-02 is taken away.
$kubectl -n $namespace patch $agents -p \
    '{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"'"$(host node-01)"'"}}}}}'
$kubectl -n $namespace rollout status $agents --timeout=3m

# A pool is not ready if another disk covers it, and it has a volume.
claim seed broken-fast 1Mi "$(host node-01)"
$kubectl -n broken wait --for=condition=Ready pod/seed --timeout=3m
$kubectl -n broken delete pod seed
$cluster exec node-01 -- mount -t tmpfs -o size=64m tmpfs /var/hpvolumes/fast

claim one hostpath-fast 1Gi "$(host node-01)"
claim two hostpath-csi 500Ti "$(host node-01)"
claim three broken-bare 1Mi "$(host node-01)"
$kubectl -n broken apply -f - <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: four, annotations: {kubevirt.io/provisionOnNode: node-77}}
spec:
  storageClassName: hostpath-provisioner
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
END
claim five broken-fast 1Mi "$(host node-01)"
claim six hostpath-csi 1Gi "$(host node-02)"

cat <<'END'

Six claims wait in the namespace broken: one, two, three, four, five, six. Why does each?

  e2e/kubectl.sh hpp explain one -n broken
END
