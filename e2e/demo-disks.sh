#!/bin/bash
# Shows raw disks on the cluster of `make demo`: two disks become PVs, a pod uses each, one as a block device and one with
# a filesystem, and each disk is wiped before its next tenant. Called by `make demo-disks`; it can be run again and again.
# The disks are files of this machine, attached as block devices; no other disk is touched.
set -euo pipefail
cd "$(dirname "$0")/.."
. e2e/demo-common.sh
namespace=demo-disks

disks=_artifacts/demo-disks links=/dev/hpp-demo-disks
manifests=manifests/local-pv
annotation=local-pv-provisioner.cybozu.io/pv-spec-configmap label=local-pv-provisioner.cybozu.io/node

explain() {
    e2e/kubectl.sh -n demo-disks describe pvc,pod
    e2e/kubectl.sh describe pv -l $label
    e2e/kubectl.sh -n hostpath-provisioner logs -l k8s-app=hostpath-provisioner-disks --prefix --tail=15
}

# clean_up leaves the cluster as it was: the PVs go when no Node has a ConfigMap any more.
clean_up() {
    local failed=0
    e2e/kubectl.sh delete namespace demo-disks --ignore-not-found --timeout=3m >/dev/null || failed=1
    # Without a ConfigMap a Node wipes nothing, and its PVs stay.
    (await 'the disks are not wiped' "! e2e/kubectl.sh get pv -l $label -o jsonpath='{.items[*].status.phase}' | grep -qE 'Bound|Released'") || failed=1
    e2e/kubectl.sh annotate node --all "$annotation-" >/dev/null || failed=1
    e2e/kubectl.sh wait --for=delete pv -l $label --timeout=3m >/dev/null || failed=1
    e2e/kubectl.sh -n hostpath-provisioner delete configmap demo-block demo-ext4 --ignore-not-found >/dev/null || failed=1
    uninstall local-pv || failed=1
    detach
    leave_cluster || failed=1
    return $failed
}

detach() {
    local image device
    rm -rf "$links"
    for image in "$disks"/*.img; do
        [ -e "$image" ] || continue
        for device in $(losetup --noheadings --output NAME --associated "$image"); do
            losetup --detach "$device" || true
        done
    done
    rm -rf "$disks"
}

# claim_and_pod applies a tenant: NAME NODE MODE, and how the pod's container uses the volume.
claim_and_pod() {
    apply <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  storageClassName: local-storage
  volumeMode: $3
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 300Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  nodeSelector: {kubernetes.io/hostname: $2}
  terminationGracePeriodSeconds: 0
  containers:
    - name: tenant
      image: localhost/hpp-e2e/busybox:latest
      imagePullPolicy: IfNotPresent
      command: [sleep, infinity]
      $4
  volumes: [{name: data, persistentVolumeClaim: {claimName: $1}}]
END
    run "e2e/kubectl.sh -n demo-disks wait --for=condition=Ready pod/$1 --timeout=3m" || fail 'the pod does not run'
}

block='volumeDevices: [{name: data, devicePath: /dev/tenant}]'
filesystem='volumeMounts: [{name: data, mountPath: /data}]'

# offered waits until the disk of a node has another PV than the one with the UID.
offered() {
    await "the disk of $1 is not offered again" \
        "e2e/kubectl.sh get pv local-$1-disk-1 -o jsonpath='{.metadata.uid} {.status.phase}' 2>/dev/null | grep -v '$2' | grep -q Available"
}

uid() { e2e/kubectl.sh get pv "local-$1-disk-1" -o jsonpath='{.metadata.uid}'; }

step 'A Kubernetes cluster with two nodes (the first time it is built: minutes)'
start_cluster

step 'The image, loaded onto the nodes'
load_image
new_namespace

step 'A disk for each node: files as block devices, linked in directories of their own'
detach
mkdir -p "$disks"
for node in node-01 node-02; do
    run "truncate -s 512M $disks/$node.img"
    run "mkdir -p $links/$node && ln -s \$(losetup --find --show $disks/$node.img) $links/$node/disk-1"
done

step 'The DaemonSet, and a ConfigMap for each node: block devices on one, ext4 on the other'
run "e2e/kubectl.sh apply -k $manifests"
run 'e2e/kubectl.sh -n hostpath-provisioner rollout status daemonset/hostpath-provisioner-disks --timeout=2m'
apply hostpath-provisioner <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: demo-block}
data: {storageClassName: local-storage, volumeMode: Block, deviceDir: $links/node-01, deviceNameFilter: "^disk-"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: demo-ext4}
data: {storageClassName: local-storage, volumeMode: Filesystem, fsType: ext4, deviceDir: $links/node-02, deviceNameFilter: "^disk-"}
END
run "e2e/kubectl.sh annotate node node-01 $annotation=demo-block"
run "e2e/kubectl.sh annotate node node-02 $annotation=demo-ext4"

step 'Each disk is read, wiped, and becomes a PV'
for node in node-01 node-02; do offered "$node" none; done
run "e2e/kubectl.sh get pv -l $label"
first_block=$(uid node-01) first_filesystem=$(uid node-02)

step 'A pod with a block device'
claim_and_pod block node-01 Block "$block"
run "e2e/kubectl.sh -n demo-disks exec block -- sh -c 'echo a secret of the first tenant | dd of=/dev/tenant bs=1M seek=100 conv=sync,fsync 2>/dev/null'"
run "e2e/kubectl.sh -n demo-disks exec block -- sh -c 'dd if=/dev/tenant bs=1M skip=100 count=1 2>/dev/null | hexdump -C'"

step 'A pod with a filesystem, which the kubelet makes'
claim_and_pod filesystem node-02 Filesystem "$filesystem"
run "e2e/kubectl.sh -n demo-disks exec filesystem -- sh -c 'echo a secret of the first tenant >/data/secret; grep /data /proc/mounts; ls -l /data'"

step 'What a node knows of its disks'
pod=$(e2e/kubectl.sh -n hostpath-provisioner get pod -o name -l k8s-app=hostpath-provisioner-disks --field-selector spec.nodeName=node-01)
run "e2e/kubectl.sh -n hostpath-provisioner exec $pod -- /hostpath-provisioner disks inspect"

step 'The claims are deleted: each disk is wiped, read back, and offered again'
run 'e2e/kubectl.sh -n demo-disks delete pod,pvc --all --timeout=3m'
offered node-01 "$first_block"
offered node-02 "$first_filesystem"
run 'e2e/kubectl.sh get events --field-selector reason=DeviceWiped'
run "e2e/kubectl.sh get pv -l $label"

step 'The next tenants read zeros, and an empty filesystem'
claim_and_pod block-again node-01 Block "$block"
run "e2e/kubectl.sh -n demo-disks exec block-again -- sh -c 'dd if=/dev/tenant bs=1M skip=100 count=1 2>/dev/null | hexdump -C'"
[ "$(e2e/kubectl.sh -n demo-disks exec block-again -- sh -c "tr -d '\0' </dev/tenant | head -c 100")" = '' ] || fail 'the next tenant reads data'
claim_and_pod filesystem-again node-02 Filesystem "$filesystem"
run 'e2e/kubectl.sh -n demo-disks exec filesystem-again -- ls -A /data'
[ "$(e2e/kubectl.sh -n demo-disks exec filesystem-again -- ls -A /data)" = lost+found ] || fail 'the next tenant has files'

step 'Your turn'
cat <<'END'
docs/raw-disks.md                      the keys of the ConfigMap, and what is never wiped
make cluster-down                      ends the cluster and leaves nothing behind
END
