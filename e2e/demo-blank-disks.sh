#!/bin/bash
# Shows blank disks as pools with quotas on the cluster of `make demo`: two commands, and each disk of each node is wiped,
# gets a filesystem, and is a pool. A pod fills its volume and is held to the size of its claim, the volume grows, and the
# disks are blank again at the end. Called by `make demo-blank-disks`; it can be run again and again. The disks are files of
# this machine, attached as block devices; no other disk is touched.
set -euo pipefail
cd "$(dirname "$0")/.."
. e2e/demo-common.sh
namespace=demo-blank-disks

k=e2e/kubectl.sh
disks=_artifacts/demo-blank-disks links=/dev/disk/by-local-pv
form=manifests/examples/blank-disks
size=320M # a wiped file takes its whole size on the disk of this machine
cr=hostpathprovisioner/hostpath-provisioner
ofDisks='-l local-pv-provisioner.cybozu.io/node' ofPools='-l kubevirt.io.hostpath-provisioner/storagePool'

explain() {
    $k -n $namespace describe pvc,pod
    $k get $cr -o yaml
    $k describe pv
    $k -n hostpath-provisioner describe pvc
    $k -n hostpath-provisioner get pods -o wide
    $k -n hostpath-provisioner logs -l k8s-app=hostpath-provisioner-disks --prefix --tail=15
    $k -n hostpath-provisioner logs -l k8s-app=hostpath-provisioner --prefix --tail=15
}

# clean_up removes the users first, then the pools, their claims, the PVs, and the disks.
clean_up() {
    local failed=0
    delete_namespace || failed=1
    remove_pools >/dev/null || failed=1
    remove_forms >/dev/null || failed=1
    detach
    leave_cluster || failed=1
    return $failed
}

# remove_pools removes the resource and the claims of its pools, and waits until the disks are wiped.
remove_pools() {
    if $k get $cr >/dev/null 2>&1; then
        run "$k delete $cr --timeout=4m" || return 1
    fi
    if $k get namespace hostpath-provisioner >/dev/null 2>&1; then
        run "$k -n hostpath-provisioner delete pvc $ofPools --timeout=3m" || return 1
    fi
    (await 'the disks are not wiped' "phases=\$($k get pv $ofDisks -o jsonpath='{.items[*].status.phase}') && ! grep -qE 'Bound|Released|Failed' <<<\"\$phases\"")
}

# remove_forms withdraws the PVs of the disks, and uninstalls both forms.
remove_forms() {
    local failed=0
    if $k -n hostpath-provisioner get daemonset hostpath-provisioner-disks >/dev/null 2>&1; then
        run "$k -n hostpath-provisioner set env daemonset/hostpath-provisioner-disks LP_DEFAULT_PV_SPEC_CONFIGMAP-" || failed=1
        run "$k wait --for=delete pv $ofDisks --timeout=3m" || failed=1
    fi
    run "$k delete -f $form/configmap.yaml -f $form/storageclasses.yaml --ignore-not-found" || failed=1
    $k -n hostpath-provisioner delete configmap hostpath-provisioner-settings --ignore-not-found >/dev/null || failed=1
    uninstall local-pv || failed=1
    uninstall operator || failed=1
    $k delete crd hostpathprovisioners.hostpathprovisioner.kubevirt.io --ignore-not-found --timeout=3m >/dev/null || failed=1
    return $failed
}

detach() {
    local image device node
    for node in node-01 node-02; do
        while $on_node $node -- umount $links 2>/dev/null; do :; done
    done
    rmdir $links /dev/disk 2>/dev/null || true
    rm -rf /dev/hpp-demo-blank-disks
    for image in "$disks"/*.img; do
        [ -e "$image" ] || continue
        for device in $(losetup --noheadings --output NAME --associated "$image"); do
            losetup --detach "$device" || true
        done
    done
    rm -rf "$disks"
}

# xfs_quotas reports whether this kernel has quotas on XFS, as those of distributions have.
xfs_quotas() {
    local at=$disks/probe code=1
    mkdir -p "$at"
    truncate -s 512M "$at.img"
    if mkfs.xfs -q "$at.img" && mount -o loop,prjquota "$at.img" "$at" 2>/dev/null; then
        umount "$at"
        code=0
    fi
    rm -rf "$at" "$at.img"
    return $code
}

# link has a new disk linked for a node, as a udev rule would.
link() { # NODE NAME
    run "truncate -s $size $disks/$1-$2.img && ln -s \$(losetup --find --show $disks/$1-$2.img) /dev/hpp-demo-blank-disks/$1/$2"
}

# await_ready waits until every node offers every pool.
await_ready() {
    await 'the pools are not ready' "$k wait $cr --for=condition=Ready --timeout=1s >/dev/null 2>&1"
}

in_pod() { $k -n $namespace exec writer -- sh -c "$1"; }
capacity="$k get csistoragecapacities -A -o custom-columns='NODE:.nodeTopology.matchLabels.topology\.hostpath\.csi/node,CLASS:.storageClassName,AVAILABLE:.capacity'"

step 'A Kubernetes cluster with two nodes (the first time it is built: minutes)'
start_cluster

step 'The image, loaded onto the nodes'
load_image
new_namespace

step 'Two blank disks for each node, and one that carries data: files as block devices'
# The nodes share the /dev of this machine. A mount in the namespace of each node stands for what a udev rule links there.
detach
mkdir -p "$disks" $links
for node in node-01 node-02; do
    mkdir -p /dev/hpp-demo-blank-disks/$node
    for name in nvme-a nvme-b; do
        link $node $name
    done
    $on_node $node -- mount --bind /dev/hpp-demo-blank-disks/$node $links
done
run "truncate -s 64M $disks/old.img && mkfs.ext4 -q $disks/old.img && ln -s \$(losetup --find --show $disks/old.img) /dev/hpp-demo-blank-disks/node-01/with-data"
run "$on_node node-01 -- ls -l $links"

step 'First command: the operator'
run "$k apply -k manifests/operator"

step 'Second command: the agents of disks, which disks they offer, and the pools'
if xfs_quotas; then
    filesystem=xfs
    run "$k apply -k $form"
else
    echo 'This kernel has no quotas on XFS; those of distributions have. btrfs takes its place here.'
    filesystem=btrfs
    run "$k kustomize $form | sed 's/fsType: xfs/fsType: btrfs/; /mountOptions:/d' | $k apply -f -"
    run "$k -n hostpath-provisioner create configmap hostpath-provisioner-settings --from-literal=HPP_ENABLE_BTRFS_QUOTA=true"
fi

step 'Each blank disk is wiped and becomes a PV; on each lies a pool'
await_ready
run "$k get pv $ofDisks"
run "$k -n hostpath-provisioner get pvc"
run "$k get $cr -o custom-columns='POOL:.status.storagePoolStatuses[*].name,PHASE:.status.storagePoolStatuses[*].phase,NODES:.status.storagePoolStatuses[*].currentReady'"
run "$on_node node-01 -- findmnt -n -o TARGET,SOURCE,FSTYPE,SIZE /var/hpvolumes/disk-1/csi"

step 'The disk that carries data is refused, and left as it is'
run "$k get events --field-selector reason=DeviceRefused -o custom-columns='NODE:.involvedObject.name,MESSAGE:.message'"
run "blkid -o value -s TYPE $disks/old.img"

step 'The scheduler knows what each disk has'
await 'no capacity is published' "[ \$($k get csistoragecapacities -A --no-headers | wc -l) -ge 4 ]"
run "$capacity"

step 'A claim of 80Mi on one of the disks, and its pod'
apply <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: disk-1, accessModes: [ReadWriteOnce], resources: {requests: {storage: 80Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: writer
      image: localhost/hpp-e2e/busybox:latest
      imagePullPolicy: IfNotPresent
      command: [sleep, infinity]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
END
run "$k -n $namespace wait --for=condition=Ready pod/writer --timeout=3m" || fail 'the pod does not run'
run "$k -n $namespace get pod,pvc -o wide"
run "$capacity"

step 'The pod writes 120Mi: the kernel holds it to its 80Mi, and the rest of the disk stays free'
if in_pod 'dd if=/dev/zero of=/data/file bs=1M count=120 conv=fsync'; then fail 'the pod wrote more than its claim has'; fi
run "$k -n $namespace exec writer -- du -m /data/file"
[ "$(in_pod 'du -m /data/file' | cut -f1)" -le 80 ] || fail 'the volume is larger than its claim'

step 'The claim grows to 150Mi under the pod, and the same write fits'
run "$k -n $namespace patch pvc data -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"150Mi\"}}}}'"
run "$k -n $namespace wait pvc/data --for=jsonpath='{.status.capacity.storage}'=150Mi --timeout=2m" || fail 'the volume does not grow'
run "$k -n $namespace exec writer -- dd if=/dev/zero of=/data/file bs=1M count=120 conv=fsync" || fail 'the write does not fit'
run "$k -n $namespace get pvc data"

step 'What a node knows of its disks and of the volume'
node=$($k -n $namespace get pod writer -o jsonpath='{.spec.nodeName}')
pod() { $k -n hostpath-provisioner get pod -o name -l "$1" --field-selector "spec.nodeName=$node" | head -1; }
run "$k -n hostpath-provisioner exec $(pod k8s-app=hostpath-provisioner-disks) -- /hostpath-provisioner disks inspect"
agent=$($k -n hostpath-provisioner get pod -o jsonpath="{.items[?(@.metadata.ownerReferences[0].name=='hostpath-provisioner-csi')].metadata.name}" --field-selector "spec.nodeName=$node")
run "$k -n hostpath-provisioner exec $agent -- /hostpath-provisioner inspect"

step 'A disk of a node is replaced: the claim of its pool is made again, on the new disk'
claim=hpp-pool-disk-2-node-01
lost=$($k -n hostpath-provisioner get pvc $claim -o jsonpath='{.spec.volumeName}')
dead=node-01-${lost#local-node-01-}
run "rm /dev/hpp-demo-blank-disks/${dead/1-/1/}"
link node-01 nvme-c
await 'the new disk is not offered' "$k get pv local-node-01-nvme-c -o jsonpath='{.status.phase}' | grep -q Available"
run "$k delete pv $lost --wait=false"
run "$k -n hostpath-provisioner delete pvc $claim --wait=false"
run "$k -n hostpath-provisioner delete pod -l hpp-pool=disk-2-hpp --field-selector spec.nodeName=node-01"
await 'the claim does not get the new disk' "$k -n hostpath-provisioner get pvc $claim -o jsonpath='{.spec.volumeName}' | grep -q nvme-c"
run "$on_node node-01 -- umount --lazy /var/hpvolumes/disk-2/csi"
agent=$($k -n hostpath-provisioner get pod -o jsonpath="{.items[?(@.metadata.ownerReferences[0].name=='hostpath-provisioner-csi')].metadata.name}" --field-selector spec.nodeName=node-01)
run "$k -n hostpath-provisioner delete pod $agent"
run "$k wait pv/$lost --for=delete --timeout=1m"
await 'the pool is not on the new disk' "$on_node node-01 -- findmnt -n -o SOURCE /var/hpvolumes/disk-2/csi | grep -q \$(readlink /dev/hpp-demo-blank-disks/node-01/nvme-c)"
await_ready
run "$k -n hostpath-provisioner get pvc $claim"
run "$capacity"

step 'Back: the volume, the pools, their claims; then each disk is wiped and offered again'
run "$k -n $namespace delete pod,pvc --all --timeout=3m"
volumes_deleted || fail 'the volume is not deleted'
remove_pools || fail 'the disks are not free again'
run "$k get pv $ofDisks"
run "$k get events --field-selector reason=DeviceWiped"
remove_forms || fail 'something is left'
rest=$($k get pv,crd -o name | grep -E 'persistentvolume/local-|hostpathprovisioner' || true)
[ -z "$rest" ] || fail "left: $rest"
for image in "$disks"/node-*.img; do
    [ "$image" = "$disks/$dead.img" ] || [ -z "$(blkid -o value -s TYPE "$image")" ] || fail "$image is not blank"
done
[ "$(blkid -o value -s TYPE $disks/old.img)" = ext4 ] || fail 'the disk with data was touched'
echo "The disks are blank again. The filesystem was $filesystem."

step 'Your turn'
cat <<'END'
docs/blank-disks.md                    sizes, quotas, growth, and what to do when a disk dies
manifests/examples/blank-disks         which disks, how many pools
make cluster-down                      ends the cluster and leaves nothing behind
END
