package simulation

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// restoreActs are what people do to get something back, and what happens to half of a node.
var restoreActs = []act{
	{words: "pv forced", usage: "CLAIM: its PV is deleted and its finalizers are removed", weight: 1, next: []string{"pv apply"},
		draw: func(w *World) []string { return w.aPV() },
		do: func(w *World, args []string) bool {
			pv := w.pvOf(arg(args, 0))
			if pv == nil {
				return false
			}
			w.judge.forced(pv.Name)
			pvs := w.god.CoreV1().PersistentVolumes()
			pv.Finalizers = nil
			if _, err := pvs.Update(ctx, pv, metav1.UpdateOptions{}); err != nil {
				return false
			}
			return pvs.Delete(ctx, pv.Name, metav1.DeleteOptions{}) == nil
		}},
	{words: "pv apply", usage: "CLAIM: the PV that it had is applied again from a backup", weight: 2, next: []string{"delete claim", "policy"},
		draw: func(w *World) []string {
			var names []string
			for name, pv := range w.judge.backup {
				if _, err := w.god.CoreV1().PersistentVolumes().Get(ctx, pv.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
					names = append(names, name)
				}
			}
			if len(names) == 0 {
				return nil
			}
			return []string{pick(w, sorted(names))}
		},
		do: func(w *World, args []string) bool {
			saved := w.judge.backup[arg(args, 0)]
			if saved == nil {
				return false
			}
			pv := saved.DeepCopy()
			pv.UID, pv.ResourceVersion, pv.CreationTimestamp, pv.Finalizers, pv.Status = "", "", metav1.Time{}, nil, corev1.PersistentVolumeStatus{}
			_, err := w.god.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
			return err == nil
		}},
	{words: "claim absent", usage: "NAME NODE: a claim that names a PV which does not exist", weight: 1,
		draw: func(w *World) []string { return append([]string{w.newName()}, pick(w, w.nodes).name) },
		do: func(w *World, args []string) bool {
			absent := corev1.PersistentVolumeClaimSpec{VolumeName: "pv-of-" + arg(args, 0)}
			return w.apply(tenant, args[0], "a-keep", absent, nil, map[string]string{wantsNode: arg(args, 1)})
		}},
	{words: "foreign", usage: "NAME CLASS CLUSTER|none: a claim and its PV from another cluster, for a Node that has not joined", weight: 1,
		draw: func(w *World) []string { return []string{w.newName(), w.aClass(), pick(w, []string{"former", "none"})} },
		do:   func(w *World, args []string) bool { return w.foreign(arg(args, 0), arg(args, 1), arg(args, 2)) }},
	nodeAct("node vanish", ": its Node is deleted, and its agent runs on", 1, (*node).there, func(w *World, n *node, _ []string) bool {
		w.deleteNode(n)
		return true
	}).then("agent end", "node return"),
	nodeAct("node return", ": it registers again, and its agent does not start", 1, (*node).gone, func(w *World, n *node, _ []string) bool {
		w.makeNode(n)
		return true
	}).then("agent start"),
	nodeAct("agent end", ": its agent ends, with its pod", 1, (*node).runs, func(w *World, n *node, _ []string) bool {
		w.stopAgent(n)
		return true
	}).then("node vanish", "node delete"),
	nodeAct("agent start", ": its agent starts, with a pod", 2, func(n *node) bool { return !n.runs() && n.there() },
		func(w *World, n *node, _ []string) bool {
			w.startAgent(n)
			return true
		}),
	{words: "webhook refuses", usage: "csi: a webhook refuses each new CSI PV, for good", weight: 1, next: []string{"migrate"},
		draw: func(*World) []string { return []string{"csi"} },
		do: func(w *World, _ []string) bool {
			return w.hook("refuses", true, func(x *apiserver.Write) error {
				if x.Resource == "persistentvolumes" && x.Verb == "create" && x.Who != "god" && field(x.New, "spec", "csi", "driver") != "" {
					return apierrors.NewForbidden(corev1.Resource("persistentvolumes"), x.Name, nil)
				}
				return nil
			})
		}},
}

// foreign applies a claim and its PV as they were in another cluster.
func (w *World) foreign(name, class, cluster string) bool {
	pool, _, is := strings.Cut(class, "-")
	if !is || !w.apply(tenant, name, class, corev1.PersistentVolumeClaimSpec{VolumeName: "foreign-" + name}, nil, nil) {
		return false
	}
	const home = "node-09"
	pv := csiPV("foreign-"+name, home, pool)
	pv.Annotations[contract.AnnCluster], pv.Annotations[contract.AnnNodeUID] = cluster, "former"
	if cluster == "none" {
		delete(pv.Annotations, contract.AnnCluster)
	}
	pv.Spec.StorageClassName = class
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: tenant, Name: name}
	_, err := w.god.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	return err == nil
}

// csiPV is the PV of a volume in that pool of that node.
func csiPV(name, node, pool string) *corev1.PersistentVolume {
	here := corev1.NodeSelectorRequirement{Key: contract.TopologyNode, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{contract.LabelNode: node},
			Annotations: map[string]string{contract.AnnProvisionedBy: contract.CSIProvisioner}},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: contract.CSIProvisioner, VolumeHandle: name, VolumeAttributes: map[string]string{contract.StoragePool: pool}}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{here}}}}},
		},
	}
}

// letGo reports whether the claim of a PV was deleted, also if the controller-manager has yet to release
// the PV.
func (w *World) letGo(pv *corev1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	if pv.Status.Phase == corev1.VolumeReleased || ref == nil {
		return ref != nil
	}
	claim, err := w.god.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && (claim.UID != ref.UID || claim.DeletionTimestamp != nil)
}

// asked notes that a person lets the data of a PV go that has no claim any more.
func (j *judge) asked(pv string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.pvs[pv]; v != nil {
		v.wanted = "the policy was set to Delete"
	}
}

// spared notes that a person keeps the data of a PV whose claim was deleted, and that was there a second
// after the PV got the policy Retain: an agent that read the PV before is done by then.
func (j *judge) spared(pv string) {
	time.Sleep(time.Second)
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.pvs[pv]; v != nil && v.wanted == claimDeleted && j.inPlace(v) {
		v.wanted = ""
	}
}

// forced notes that a person removes the PV by force.
func (j *judge) forced(pv string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.pvs[pv]; v != nil {
		v.removed = time.Now()
	}
}
