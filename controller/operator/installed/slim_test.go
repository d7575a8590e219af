package installed

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
)

// answers are what package identity says of a PV, and contract of its state, by the names of the functions.
var answers = map[string]func(*corev1.PersistentVolume) any{
	"HomeOf": func(pv *corev1.PersistentVolume) any {
		if h, ok := identity.HomeOf(pv); ok {
			return h
		}
		return nil
	},
	"UseOfPV": func(pv *corev1.PersistentVolume) any {
		if u, ok := identity.UseOfPV(pv); ok {
			return u
		}
		return nil
	},
	"DiskHome": func(pv *corev1.PersistentVolume) any {
		h, ok := identity.DiskHome(pv)
		return fmt.Sprint(h.Node, h.NodeUID, h.Cluster, ok, ok && h.Hostname != "")
	},
	"Provisioned": func(pv *corev1.PersistentVolume) any { return identity.Provisioned(pv) },
	"DiskLabel":   func(pv *corev1.PersistentVolume) any { return identity.DiskLabel(pv) },
	"DiskNodeUID": func(pv *corev1.PersistentVolume) any { return identity.DiskNodeUID(pv) },
	"DiskOwner":   func(pv *corev1.PersistentVolume) any { return identity.DiskOwner(pv) },
	"DiskIsFree":  func(pv *corev1.PersistentVolume) any { return identity.DiskIsFree(pv) },

	"contract.Released": func(pv *corev1.PersistentVolume) any { return contract.Released(pv) },
	"contract.Leaving":  func(pv *corev1.PersistentVolume) any { return contract.Leaving(pv) },
	"contract.Policy":   func(pv *corev1.PersistentVolume) any { return contract.Policy(pv) },
	"the annotations": func(pv *corev1.PersistentVolume) any { // of nodegone, and of the holders of pools
		var all []string
		for _, name := range []string{contract.AnnProvisionedBy, contract.AnnFormerPolicy, contract.AnnGivenUp, contract.AnnPolicy,
			contract.AnnPoolPolicy, contract.AnnHeldPool, contract.AnnCluster} {
			all = append(all, pv.Annotations[name])
		}
		return all
	},
	"contract.ClaimUID": func(pv *corev1.PersistentVolume) any { return contract.ClaimUID(pv) },
}

// written are the annotations of the contract that a PV may have.
var written = []string{contract.AnnProvisionedBy, contract.AnnProvisionOnNode, contract.AnnIdentity, contract.AnnPool, contract.AnnNodeUID,
	contract.AnnCluster, contract.AnnMissing, contract.AnnPolicy, contract.AnnFormerPolicy, contract.AnnGivenUp, contract.AnnPoolPolicy,
	contract.AnnHeldPool, contract.AnnBoundByController, contract.AnnReplaces, contract.AnnMigrate, contract.AnnDeleteVolume}

var large = strings.Repeat("x", 64<<10)

// full returns a PV with every field that PVs have, for a source.
func full(source corev1.PersistentVolumeSource, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u", ResourceVersion: "7", DeletionTimestamp: &metav1.Time{}, Generation: 1,
			Labels: map[string]string{"large": large}, Annotations: map[string]string{"large": large},
			Finalizers: []string{contract.Finalizer}, OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n1", UID: "owner"}, {Kind: "Other"}},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source, StorageClassName: "fast", MountOptions: []string{"noatime"},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: quantity.MustParse("1Gi")},
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "ns", Name: "claim", UID: "c"}},
		Status: corev1.PersistentVolumeStatus{Phase: phase, Message: large},
	}
	pv.Labels[contract.LabelNode], pv.Labels[contract.LabelDisk], pv.Labels[contract.LabelDiskOlder] = "n1", "n1", "n2"
	for _, name := range written {
		pv.Annotations[name] = "value of " + name
	}
	key := corev1.LabelHostname
	if pv.Spec.CSI != nil {
		key = contract.TopologyNode
	}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}}}}
	if pv.Spec.HostPath != nil {
		pv.Annotations[contract.AnnProvisionedBy] = contract.HostPathProvisioner
	}
	return pv
}

func csi(driver string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h", FSType: "xfs",
		VolumeAttributes: map[string]string{contract.StoragePool: "a", "large": large}}}
}

// Of the PV that the cache keeps, package identity says what it says of the whole one, whatever the PV has or
// lacks. What the rules read and the cache drops would be absent, and to be absent means to be free.
func TestSlimPVsHaveTheSameAnswers(t *testing.T) {
	sources := map[string]corev1.PersistentVolumeSource{
		"own CSI": csi(contract.CSIProvisioner), "another CSI": csi("rbd.example.com"),
		"hostPath": {HostPath: &corev1.HostPathVolumeSource{Path: "/p/pvc-1", Type: new(corev1.HostPathDirectory)}},
		"disk":     {Local: &corev1.LocalVolumeSource{Path: "/dev/disk/by-id/x", FSType: new("xfs")}},
		"NFS":      {NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/x"}},
	}
	lacks := map[string]func(*corev1.PersistentVolume){
		"nothing": func(*corev1.PersistentVolume) {}, "labels": func(pv *corev1.PersistentVolume) { pv.Labels = nil },
		"annotations": func(pv *corev1.PersistentVolume) { pv.Annotations = nil }, "claim": func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = nil },
		"affinity": func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }, "owners": func(pv *corev1.PersistentVolume) { pv.OwnerReferences = nil },
		"deletion": func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = nil }, "policy": func(pv *corev1.PersistentVolume) { pv.Spec.PersistentVolumeReclaimPolicy = "Retain" },
	}
	for _, name := range written {
		lacks[name] = func(pv *corev1.PersistentVolume) { delete(pv.Annotations, name) }
		lacks["any but "+name] = func(pv *corev1.PersistentVolume) {
			pv.Annotations, pv.Spec.ClaimRef = map[string]string{name: pv.Annotations[name]}, nil
		}
	}
	slim := NewSlimPVs()
	for name, source := range sources {
		for missing, drop := range lacks {
			for _, phase := range []corev1.PersistentVolumePhase{"", "Available", "Bound", "Released", "Failed"} {
				pv := full(*source.DeepCopy(), phase)
				drop(pv)
				before := pv.DeepCopy()
				kept := slim.Slim(pv)
				for function, of := range answers {
					if want, got := of(pv), of(kept); !reflect.DeepEqual(want, got) {
						t.Errorf("%s %s without %s: %s is %+v, of the whole PV %+v", phase, name, missing, function, got, want)
					}
				}
				if !equality.Semantic.DeepEqual(pv, before) || !equality.Semantic.DeepEqual(slim.Slim(kept), kept) {
					t.Errorf("%s without %s: the PV is changed, or slimmer the second time", name, missing)
				}
				if kept.UID != "u" || kept.ResourceVersion != "7" || kept.Size() > 2<<10 || !reflect.DeepEqual(kept.OwnerReferences, pv.OwnerReferences) {
					t.Errorf("%s without %s: %d bytes, %+v", name, missing, kept.Size(), kept.ObjectMeta)
				}
			}
		}
	}
}

// A question that package identity gets about PVs is among the answers above: the cache has what it reads.
func TestEveryQuestionAboutPVsIsAsked(t *testing.T) {
	all, err := parser.ParseDir(token.NewFileSet(), "../../kube/identity", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, file := range all["identity"].Files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || !slices.ContainsFunc(f.Type.Params.List, func(p *ast.Field) bool {
				star, ok := p.Type.(*ast.StarExpr)
				if !ok {
					return false
				}
				of, ok := star.X.(*ast.SelectorExpr)
				return ok && of.Sel.Name == "PersistentVolume"
			}) {
				continue
			}
			if asked = append(asked, f.Name.Name); answers[f.Name.Name] == nil {
				t.Errorf("identity.%s reads PVs: say of a slim one what it says of the whole one", f.Name.Name)
			}
		}
	}
	if len(asked) < 8 {
		t.Errorf("found only %q", asked)
	}
}
