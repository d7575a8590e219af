package suite

import (
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// policedMigration: volumes of other provisioners become CSI volumes, and theirs again, once the
// administrator has listed those provisioners; until then an event says which rule refuses it.
func policedMigration(s *harness.Scene, other harness.Node) {
	node := s.Node("01")
	s.KnowsDriver(node)
	kubeconfig := s.PodKubeconfig(s.AgentPod(node, harness.CSIAccount))
	as := func(mode string) harness.Options {
		o := bothModes(mode, fromOthers)
		o.Kubeconfig = kubeconfig
		return o
	}
	a := s.Later(node, as("run"))
	var all []*theirs
	for _, p := range otherProvisioners {
		all = append(all, newTheirs(s, a, p))
	}
	var inodes []uint64
	for _, h := range all {
		inodes = append(inodes, h.find())
	}
	a.Restart()
	a.AwaitReady()
	for _, h := range all {
		s.Eventually("refused", func() error {
			return s.Warned(h.claim.UID, reasonMigrationStopped, "MIGRATE_FROM lists", "docs/migration.md")
		})
		if pv := s.PV(h.pv.Name); pv.ResourceVersion != h.pv.ResourceVersion {
			s.Errorf("somebody wrote PV %+v", pv)
		}
	}
	listed(s, kubeconfig, all, "hostpath, rancher.io/local-path")
	a.Stop() // otherwise it asks again in some minutes
	a.Restart()
	for _, h := range all {
		s.Eventually("taken over", h.isOurs)
	}
	policedWayBack(s, a, as("back"), all)
	for i, h := range all {
		s.Eventually("given back", h.isTheirs)
		if got := h.find(); got != inodes[i] {
			s.Errorf("inode %d, was %d", got, inodes[i])
		}
	}
	a.Stop()
	try(s, kubeconfig, othersDeeds(s, node, other, all))
	policedCompat(s, kubeconfig, node, other)
}

// listed has the policy admit the PVs of these other provisioners, and no others, and waits until
// it does for the agent's token.
func listed(s *harness.Scene, kubeconfig string, all []*theirs, provisioners string) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"data":{"MIGRATE_FROM":%q}}`, provisioners)
	_, err := s.Client.CoreV1().ConfigMaps(harness.Namespace).Patch(s.Context(), "hostpath-provisioner-hostnames",
		types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
	client := s.As(kubeconfig)
	s.Eventually("heeded", func() error {
		for _, h := range all {
			again := h.pv.DeepCopy()
			again.ObjectMeta = metav1.ObjectMeta{Name: h.pv.Name, Annotations: h.pv.Annotations}
			err := createPV(again)(s.Context(), client)
			if refused := !apierrors.IsAlreadyExists(err); refused == (provisioners != "") {
				return fmt.Errorf("listed %q: %w", provisioners, err)
			}
		}
		return nil
	})
}

// policedWayBack: where the other provisioners are not listed any more, the volumes keep their CSI
// PVs, and events have the rule. It leaves the agent on the way back, with the provisioners listed.
func policedWayBack(s *harness.Scene, a *harness.Agent, back harness.Options, all []*theirs) {
	s.Helper()
	a.Stop()
	listed(s, back.Kubeconfig, all, "")
	var before []*corev1.PersistentVolume
	for _, h := range all {
		before = append(before, s.PV(h.pv.Name))
	}
	a.RestartAs(back)
	for i, h := range all {
		s.Eventually("refused", func() error {
			// The way to CSI PVs was refused, too.
			return s.WarnedOf(h.claim.UID, reasonMigrationStopped, "migration to a hostPath PV does not begin", "MIGRATE_FROM lists", "docs/migration.md")
		})
		// The agent may have been stopped before it had written its marks on the PV.
		if pv := s.PV(h.pv.Name); pv.UID != before[i].UID || !equality.Semantic.DeepEqual(pv.Spec, before[i].Spec) {
			s.Errorf("PV %+v was written, was %+v", pv, before[i])
		}
		if err := h.isOurs(); err != nil {
			s.Error(err)
		}
	}
	listed(s, back.Kubeconfig, all, "hostpath, rancher.io/local-path")
	a.Stop()
	a.Restart()
}

// policedCompat: the agent of a node may write the PVs of a provisioner that COMPAT names, of its
// own node alone.
func policedCompat(s *harness.Scene, kubeconfig string, node, other harness.Node) {
	patch := []byte(`{"data":{"MIGRATE_FROM":"","COMPAT":"hostpath"}}`)
	_, err := s.Client.CoreV1().ConfigMaps(harness.Namespace).Patch(s.Context(), "hostpath-provisioner-hostnames",
		types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
	made := func(n int, provisioner string, edit func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		pv := hostPathPVOf(s, node)
		uid := types.UID(fmt.Sprintf("00000000-1111-4222-8444-%012d", n))
		pv.Name, pv.Annotations = "pvc-"+string(uid), map[string]string{harness.AnnProvisionedBy: provisioner, harness.AnnIdentity: node.Name}
		pv.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "a", Name: "b", UID: uid}
		pv.Spec.HostPath.Path = node.Pool + "/a-b-" + pv.Name
		pv.Spec.NodeAffinity = hostnameAffinity(node)
		edit(pv)
		return pv
	}
	unpinned := func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }
	unpinnedPV := save(s, made(8, "hostpath", func(pv *corev1.PersistentVolume) {
		unpinned(pv)
		pv.Labels, pv.Spec.PersistentVolumeReclaimPolicy = nil, corev1.PersistentVolumeReclaimRetain
		pv.Spec.HostPath.Path = "/var/an-older-provisioner/a-b-" + pv.Name
	}))
	try(s, kubeconfig, []deed{
		{"compat: make it", "", createPV(made(1, "hostpath", func(*corev1.PersistentVolume) {}))},
		{"compat: without affinity, as the older provisioner", othersNode, createPV(made(2, "hostpath", unpinned))},
		{"compat: without affinity, another directory", "do not follow from its claim", createPV(made(3, "hostpath", func(pv *corev1.PersistentVolume) {
			unpinned(pv)
			pv.Spec.HostPath.Path = "/etc"
		}))},
		{"compat: without affinity, in a directory of the kubelet", noPool, createPV(made(7, "hostpath", func(pv *corev1.PersistentVolume) {
			unpinned(pv)
			create := corev1.HostPathDirectoryOrCreate
			pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins_registry/a-b-" + pv.Name, Type: &create}
			pv.Spec.StorageClassName = "another-drivers"
		}))},
		{"compat: label an older one without affinity", "", patchPV(unpinnedPV, `{"metadata":{"labels":{%q:%q}}}`, harness.LabelNode, node.Name)},
		{"compat: delete an older one without affinity", "", deletePV(unpinnedPV)},
		{"compat: another node's identity", othersNode, createPV(made(4, "hostpath", func(pv *corev1.PersistentVolume) {
			pv.Annotations[harness.AnnIdentity] = other.Name
		}))},
		{"compat: another node's affinity", othersNode, createPV(made(5, "hostpath", func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity = hostnameAffinity(other)
		}))},
		{"compat: a provisioner that it does not name", notOurs, createPV(made(6, "rancher.io/local-path", func(*corev1.PersistentVolume) {}))},
	})
}

// othersDeeds are what the agent of a node may do to PVs of other provisioners that are listed, and
// may not.
func othersDeeds(s *harness.Scene, node, other harness.Node, all []*theirs) (deeds []deed) {
	const wrongNames = `do not follow from its claim`
	for i, h := range all {
		now := s.PV(h.pv.Name)
		made := func(spoil func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
			pv := now.DeepCopy()
			uid := types.UID("00000000-1111-4222-8333-" + fmt.Sprintf("%012d", i))
			was := pv.Name
			pv.ObjectMeta = metav1.ObjectMeta{Name: "pvc-" + string(uid), Annotations: pv.Annotations}
			pv.Spec.ClaimRef.UID, pv.Spec.ClaimRef.ResourceVersion = uid, ""
			path := pathOf(pv)
			*path = strings.Replace(*path, was, pv.Name, 1)
			spoil(pv)
			return pv
		}
		plain := func(*corev1.PersistentVolume) {}
		name := fmt.Sprintf("%d: ", i)
		deeds = append(deeds,
			deed{name + "keep it", "", patchPV(now, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)},
			deed{name + "let it go", "", patchPV(now, `{"metadata":{"finalizers":null}}`)},
			deed{name + "delete it", "", deletePV(now)},
			deed{name + "make it again", "", createPV(made(plain))},
			deed{name + "of another directory", wrongNames, createPV(made(func(pv *corev1.PersistentVolume) { *pathOf(pv) += "-x" }))},
			deed{name + "in a directory of no pool", noPool, createPV(made(func(pv *corev1.PersistentVolume) {
				*pathOf(pv) = "/var/lib/kubelet/plugins_registry/" + filepath.Base(*pathOf(pv))
			}))},
			deed{name + "of another claim", wrongNames, createPV(made(func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "other" }))},
			deed{name + "of no claim", wrongNames, createPV(made(func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = nil }))},
			deed{name + "of another node", othersNode, createPV(made(func(pv *corev1.PersistentVolume) {
				if pv.Spec.NodeAffinity == nil {
					pv.Annotations["hostPathProvisionerIdentity"] = other.Name
				} else {
					pv.Spec.NodeAffinity = hostnameAffinity(other)
				}
			}))},
			deed{name + "of a provisioner that is not listed", notOurs, createPV(made(func(pv *corev1.PersistentVolume) {
				pv.Annotations[harness.AnnProvisionedBy] = "example.com/other"
			}))},
		)
		if now.Spec.NodeAffinity != nil && now.Spec.HostPath != nil { // without one the API server takes no local PV
			deeds = append(deeds, deed{name + "on any node", othersNode, createPV(made(func(pv *corev1.PersistentVolume) {
				pv.Spec.NodeAffinity = nil
			}))})
		}
	}
	return deeds
}

// pathOf is where a hostPath or local PV says its directory.
func pathOf(pv *corev1.PersistentVolume) *string {
	if pv.Spec.Local != nil {
		return &pv.Spec.Local.Path
	}
	return &pv.Spec.HostPath.Path
}
