package suite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// diskPVOf is a PV of a disk of the node, as the command disks makes it.
func diskPVOf(s *harness.Scene, node harness.Node, edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	s.Helper()
	of, err := s.Client.CoreV1().Nodes().Get(s.Context(), node.Name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	yes, block := true, corev1.PersistentVolumeBlock
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "local-" + node.Name + "-" + s.ClassName("sdb"),
			Labels:          map[string]string{"local-pv-provisioner.cybozu.io/node": node.Name, "local-pv-provisioner.cybozu.com/node": node.Name},
			Annotations:     map[string]string{"local-pv-provisioner.cybozu.io/deviceDir": "/dev/disk/by-id"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: of.UID, Controller: &yes}},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &block,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, StorageClassName: "none",
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/dev/disk/by-id/" + s.ClassName("sdb")}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node.Name}}},
			}}}},
		},
	}
	for _, edit := range edits {
		edit(pv)
	}
	return pv
}

// diskDeeds: what the account of the command disks may do to PVs.
func diskDeeds(s *harness.Scene, a, b harness.Node) {
	kubeconfig := s.PodKubeconfig(s.AgentPod(a, harness.DiskAccount))
	of := func(node harness.Node, edits ...func(*corev1.PersistentVolume)) func(context.Context, kubernetes.Interface) error {
		return createPV(diskPVOf(s, node, edits...))
	}
	annotated := func(pairs ...string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Annotations[pairs[0]] = pairs[1] }
	}
	anywhere := annotated("local-pv-provisioner.cybozu.io/deviceDir", "/dev")
	path := func(to string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Spec.Local.Path = to }
	}
	s.Eventually("policy in force", func() error {
		if err := of(b)(s.Context(), s.As(kubeconfig)); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	there := func(suffix string, node harness.Node, edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		pv := diskPVOf(s, node, edits...)
		pv.Name += "-" + suffix
		return save(s, pv)
	}
	mine, others := there("mine", a), there("others", b)
	hostname := func(name string) func(*corev1.PersistentVolume) {
		return expression(func(e *corev1.NodeSelectorRequirement) { e.Values = []string{name} })
	}
	formerly := there("formerly", a, hostname("former-host"))
	if _, err := s.Client.CoreV1().ConfigMaps(harness.Namespace).Patch(s.Context(), "hostpath-provisioner-hostnames",
		types.MergePatchType, fmt.Appendf(nil, `{"data":{%q:%q}}`, a.Name, a.Name+",former-host"), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Eventually("former hostname in force", func() error { return deletePV(formerly)(s.Context(), s.As(kubeconfig)) })
	older := there("older", a, func(pv *corev1.PersistentVolume) {
		pv.Annotations = nil
		delete(pv.Labels, "local-pv-provisioner.cybozu.io/node")
	})
	restored := there("restored", a, func(pv *corev1.PersistentVolume) { pv.OwnerReferences = nil })
	claimed := there("claimed", a, func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: s.Namespace, Name: "later"}
	})
	released := there("released", a, func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: s.Namespace, Name: "gone", UID: "of-the-claim"}
	})
	s.Released(released.Name)
	bound := there("bound", a)
	claim, err := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Create(s.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &bound.Spec.StorageClassName, VolumeMode: bound.Spec.VolumeMode, VolumeName: bound.Name, AccessModes: bound.Spec.AccessModes,
			Resources: corev1.VolumeResourceRequirements{Requests: bound.Spec.Capacity},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Eventually("bound", func() error { return s.IsBound(claim) })
	try(s, kubeconfig, []deed{
		{"its own", "", of(a)},
		{"another's", "labels .* have to be that of the own node", of(b)},
		{"another's, labelled as its own", "not of the own node", of(b, func(pv *corev1.PersistentVolume) { pv.Labels = diskPVOf(s, a).Labels })},
		{"without labels", "labels", of(a, func(pv *corev1.PersistentVolume) { pv.Labels = nil })},
		{"of no node", "not of the own node", of(a, func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Operator = corev1.NodeSelectorOpExists
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = nil
		})},
		{"owned by another Node", "owned by the Node", of(a, func(pv *corev1.PersistentVolume) { pv.OwnerReferences = diskPVOf(s, b).OwnerReferences })},
		{"owned by nothing", "", of(a, func(pv *corev1.PersistentVolume) { pv.OwnerReferences = nil })},
		{"a path elsewhere", "below /dev", of(a, path("/etc"))},
		{"a path beside", "below /dev", of(a, path("/device/sdb"))},
		{"not in its ConfigMap's directory", "below its annotation", of(a, path("/dev/sda"))},
		{"by the name of another node's PV", "name of the PV", of(a, func(pv *corev1.PersistentVolume) { pv.Name = diskPVOf(s, b).Name })},
		{"with a hash of its path", "", of(a, func(pv *corev1.PersistentVolume) { pv.Name += "-0123abcd" })},
		{"with another node's label of directories", "none of a disk's PV", of(a, func(pv *corev1.PersistentVolume) { pv.Labels[harness.LabelNode] = b.Name })},
		{"as a PV of directories", "none of a disk's PV", of(a, annotated(harness.AnnProvisionedBy, "rancher.io/local-path"))},
		{"as a PV of a pool", "none of a disk's PV", of(a, annotated(harness.AnnPool, "uuid"))},
		{"confirmed by itself", "none of a disk's PV", of(a, annotated("hostpath-provisioner.kubevirt.io/disk-confirmed", "id"))},
		{"with the marks of a disk", "", of(a, annotated("hostpath-provisioner.kubevirt.io/disk-id", "wwn:1"))},
		{"with the begin of a partition", "", of(a, annotated("hostpath-provisioner.kubevirt.io/disk-start", "1048576"))},
		{"with the disk that it lies on", "", of(a, annotated("hostpath-provisioner.kubevirt.io/disk-below", "naa.6"))},
		{"the host's own filesystem", "not one that may be offered", of(a, anywhere, path("/dev/mapper/root"))},
		{"by its name of the device mapper", "not one that may be offered", of(a, anywhere, path("/dev/disk/by-id/dm-name-root"))},
		{"a hostPath", "has to be a local volume", of(a, func(pv *corev1.PersistentVolume) {
			pv.Spec.Local, pv.Spec.HostPath, pv.Spec.VolumeMode = nil, &corev1.HostPathVolumeSource{Path: "/dev/disk/by-id/sdb"}, nil
		})},
		{"for a claim", "for no claim", of(a, func(pv *corev1.PersistentVolume) {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: s.Namespace, Name: "claim"}
		})},
		{"that deletes", "Retain", of(a, func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		})},
		{"in a directory whose name begins with its ConfigMap's", "below its annotation", of(a, path("/dev/disk/by-id-too/sdb"))},
		{"without its ConfigMap's directory", "below its annotation", of(a, func(pv *corev1.PersistentVolume) { pv.Annotations = nil })},
		{"change its own", "cannot patch|not changed", patchPV(mine, `{"metadata":{"labels":{"a":"b"}}}`)},
		{"make one with a former hostname", "not of the own node", of(a, hostname("former-host"))},
		{"delete its own", "", deletePV(mine)},
		{"delete its own with a former hostname", "", deletePV(formerly)},
		{"delete its own of the older program", "", deletePV(older)},
		{"delete its own that a restore from a backup stripped of its owner", "", deletePV(restored)},
		{"delete its own that is Released", "", deletePV(released)},
		{"delete its own that is bound", "has a claim", deletePV(bound)},
		{"delete its own that a claim is getting", "has a claim", deletePV(claimed)},
		{"delete another's", "labels", deletePV(others)},
		{"delete a hostPath PV", "labels", deletePV(save(s, hostPathPVOf(s, a)))},
	})
}

// leaseDeeds: what the account of the command disks may do to Leases of disks that several nodes
// reach.
func leaseDeeds(s *harness.Scene, a, b harness.Node) {
	kubeconfig := s.PodKubeconfig(s.AgentPod(a, harness.DiskAccount))
	of := func(name string, holder *string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: holder}}
	}
	leases := func(client kubernetes.Interface) coordinationclient.LeaseInterface {
		return client.CoordinationV1().Leases(harness.Namespace)
	}
	create := func(l *coordinationv1.Lease) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, client kubernetes.Interface) error {
			_, err := leases(client).Create(ctx, l, metav1.CreateOptions{DryRun: dry})
			return err
		}
	}
	remove := func(l *coordinationv1.Lease) func(context.Context, kubernetes.Interface) error {
		there, err := leases(s.Client).Create(s.Context(), l, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
		return func(ctx context.Context, client kubernetes.Interface) error {
			return leases(client).Delete(ctx, there.Name, metav1.DeleteOptions{DryRun: dry})
		}
	}
	disk := func(last string) string { return "disk-" + strings.Repeat("0", 39) + last }
	s.Eventually("policy in force", func() error {
		if err := create(of(disk("0"), &b.Name))(s.Context(), s.As(kubeconfig)); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	mine := of(disk("1"), &a.Name)
	try(s, kubeconfig, []deed{
		{"take a disk for its own node", "", create(of(disk("0"), &a.Name))},
		{"take one for another node", "has to be the own node", create(of(disk("0"), &b.Name))},
		{"take one for none", "has to be the own node", create(of(disk("0"), nil))},
		{"take a Lease of something else", "has to be that of a disk", create(of("an-operator", &a.Name))},
		{"give up its own", "", remove(mine)},
		{"give it to another node", "cannot update|not changed", func(ctx context.Context, client kubernetes.Interface) error {
			_, err := leases(client).Update(ctx, of(mine.Name, &b.Name), metav1.UpdateOptions{DryRun: dry})
			return err
		}},
		{"give up another node's", "has to be the own node", remove(of(disk("2"), &b.Name))},
		{"delete a Lease of something else", "has to be that of a disk", remove(of("the-operator", &a.Name))},
	})
}

// diskPattern: with a pattern of devices only those may be offered, and those of the device mapper
// if it admits them.
func diskPattern(s *harness.Scene, node harness.Node) {
	kubeconfig := s.PodKubeconfig(s.AgentPod(node, harness.DiskAccount))
	at := func(path string) func(context.Context, kubernetes.Interface) error {
		return createPV(diskPVOf(s, node, func(pv *corev1.PersistentVolume) {
			pv.Spec.Local.Path = path
			pv.Name = "local-" + node.Name + "-" + filepath.Base(path)
			pv.Annotations["local-pv-provisioner.cybozu.io/deviceDir"] = "/dev"
		}))
	}
	if _, err := s.Client.CoreV1().ConfigMaps(harness.Namespace).Patch(s.Context(), "hostpath-provisioner-hostnames", types.MergePatchType,
		[]byte(`{"data":{"DEVICES":"/dev/disk/by-id/wwn-[0-9]+|/dev/mapper/tenants-.*"}}`), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Eventually("pattern in force", func() error { return at("/dev/mapper/tenants-a")(s.Context(), s.As(kubeconfig)) })
	try(s, kubeconfig, []deed{
		{"a listed device", "", at("/dev/disk/by-id/wwn-1")},
		{"one more below it", "DEVICES", at("/dev/disk/by-id/wwn-1-part2")},
		{"another", "DEVICES", at("/dev/sda")},
		{"one with a listed name in its path", "DEVICES", at("/dev/x/dev/disk/by-id/wwn-1")},
		{"the host's own filesystem", "DEVICES", at("/dev/mapper/root")},
	})
}

// policedDisk: the process that offers disks works under the policy, once the administrator has
// listed the directory of its disks, which is not below /dev.
func policedDisk(s *harness.Scene) {
	n := s.DiskNode("01")
	n.RestartAs(harness.Options{Disks: true, Kubeconfig: s.PodKubeconfig(s.AgentPod(n.Node, harness.DiskAccount))})
	n.AwaitReady()
	path := n.Link(s.Loop(diskMiB), "disk")
	awaitNodeEvent(s, n, "DeviceError", "below /dev .DEVICE_DIRS")
	patch := fmt.Appendf(nil, `{"data":{"DEVICE_DIRS":%q}}`, "/dev, "+n.Dir)
	if _, err := s.Client.CoreV1().ConfigMaps(harness.Namespace).Patch(s.Context(), "hostpath-provisioner-hostnames",
		types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
	pv := n.Offered(path)
	s.Delete(n.DiskClaim("c", pv))
	again := n.Offered(path, pv.UID)
	n.Annotate("")
	s.Gone(again.Name)
}
