package suite

import (
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// handmadePV is a PV of the agent's node as the agent would have made it for a claim that is gone.
// What it names is for the caller to make.
func handmadePV(s *harness.Scene, a *harness.Agent, uid types.UID, claim string) *corev1.PersistentVolume {
	name := "pvc-" + string(uid)
	directory := corev1.HostPathDirectory
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{harness.LabelNode: a.Node.Name},
			Annotations: map[string]string{
				harness.AnnIdentity: harness.Provisioner, harness.AnnProvisionedBy: harness.Provisioner,
				harness.AnnProvisionOnNode: a.Node.Name,
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Mi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              harness.ClassImmediate,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(a.Pool, name), Type: &directory},
			},
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: s.Namespace, Name: claim, UID: uid,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{a.Node.Hostname},
				}}}},
			}},
		},
	}
}

// at replaces the path of a PV.
func at(path string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path = path }
}

// under puts the PV's directory elsewhere, with the name that is right.
func under(dir string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path = filepath.Join(dir, pv.Name) }
}

func annotated(key, value string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Annotations[key] = value }
}

func sourced(from corev1.PersistentVolumeSource) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Spec.PersistentVolumeSource = from }
}

// tampering spoils a PV in one way each. Its directory is there, so the one spoilt thing is all
// that stands between the PV and the data.
func tampering(a *harness.Agent, outside, victim string) map[string]func(*corev1.PersistentVolume) {
	path := filepath.Join(a.Pool, victim)
	return map[string]func(*corev1.PersistentVolume){
		"outside of the pool":        at(outside),
		"outside, through ..":        at(a.Pool + "/../outside"),
		"outside, under its name":    under(outside),
		"below a volume, so named":   under(path),
		"the root":                   at("/"),
		"the pool itself":            at(a.Pool),
		"the pool itself, as a dot":  at(a.Pool + "/."),
		"the pool's private things":  at(a.Pool + "/.hostpath-provisioner"),
		"below a volume":             at(path + "/inner"),
		"another volume":             at(path),
		"another volume, unclean":    at(a.Pool + "//" + victim),
		"another volume, as a child": at(path + "/"),
		"an unrelated directory":     at(a.Pool + "/backup"),
		"a local volume": sourced(corev1.PersistentVolumeSource{
			Local: &corev1.LocalVolumeSource{Path: path},
		}),
		"a remote volume": sourced(corev1.PersistentVolumeSource{
			NFS: &corev1.NFSVolumeSource{Server: "nfs.example.com", Path: path},
		}),
		"a volume of a driver": sourced(corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "kubevirt.io.hostpath-provisioner", VolumeHandle: victim},
		}),
		"another's identity": annotated(harness.AnnIdentity, "somebody else"),
		"no identity": func(pv *corev1.PersistentVolume) {
			delete(pv.Annotations, harness.AnnIdentity)
		},
		"another pool": annotated(harness.AnnPool, "00000000-0000-4000-8000-000000000000"),
		"another node": annotated(harness.AnnProvisionOnNode, "node-of-others"),
		"another node's affinity": func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "node-of-others"
		},
		"another name": func(pv *corev1.PersistentVolume) { pv.Name += "-more" },
		"another claim": func(pv *corev1.PersistentVolume) {
			pv.Spec.ClaimRef.UID = uuid.NewUUID()
		},
	}
}

// Whoever may write PVs, by mistake or by intent, has no way to what is on the node's disk.
func TestTamperedPVs(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	victim := s.Create(harness.Claim{Node: a.Node.Name})
	s.Write(filepath.Join(s.Bound(victim).Spec.HostPath.Path, "inner"), "data", []byte("precious"))
	base := filepath.Dir(a.Pool)
	s.Write(base+"/outside", "data", []byte("precious"))
	s.Write(a.Pool+"/backup", "data", []byte("precious"))

	pvs := map[string]*corev1.PersistentVolume{}
	for name, spoil := range tampering(a, base+"/outside", harness.PVName(victim)) {
		pv := handmadePV(s, a, uuid.NewUUID(), "gone")
		s.Write(pv.Spec.HostPath.Path, "data", []byte("precious"))
		spoil(pv)
		pvs[name] = pv
	}
	recorded(s, a.Pool, victim)
	before := s.Tree(base)
	for name, pv := range pvs {
		made, err := env.Client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) && name == "outside, through .." {
			delete(pvs, name) // the API server knows that one
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pvs[name] = made
	}
	for name, pv := range pvs {
		t.Run(name, func(t *testing.T) {
			mine := *s
			mine.TB = t
			mine.Released(pv.Name)
			mine.Eventually("warning", func() error { return mine.Warned(pv.UID, harness.ReasonRefused, a.Node.Name) })
		})
	}
	s.Holds(a, "PVs left alone", func() error {
		for name, pv := range pvs {
			if s.IsGone(pv.Name) == nil {
				return fmt.Errorf("%s: the PV is gone", name)
			}
			if err := s.Warned(pv.UID, harness.ReasonRefused); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return a.Ready()
	})
	wantTreeBack(s, base, before)
	s.Delete(victim)
	s.Gone(harness.PVName(victim))
}

// wantTreeBack waits until a directory is as before the test: the volume with which the agents
// caught up is in the trash for a moment. What they did wrongly would stay.
func wantTreeBack(s *harness.Scene, dir, before string) {
	s.Helper()
	s.Eventually("the disk is unchanged", func() error {
		if after := s.Tree(dir); after != before {
			return fmt.Errorf("it was changed:\n%s\nbefore:\n%s", after, before)
		}
		return nil
	})
}
