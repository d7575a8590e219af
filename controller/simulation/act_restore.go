package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// restoreActs are what people do to get something back, and what happens to half of a node.
var restoreActs = []act{
	{words: "pv forced", usage: "CLAIM: its PV is deleted and its finalizers are removed", weight: 1, next: "pv apply",
		draw: func(w *World) []string { return w.aClaim() },
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
	{words: "pv apply", usage: "CLAIM: the PV that it had is applied again from a backup", weight: 2,
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
			_, err := w.god.CoreV1().PersistentVolumeClaims(tenant).Create(ctx, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: arg(args, 0), Labels: map[string]string{wantsNode: arg(args, 1)}},
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("a-keep"), VolumeName: "pv-of-" + args[0],
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}},
			}, metav1.CreateOptions{})
			return err == nil
		}},
	{words: "node vanish", usage: "NODE: its Node is deleted, and its agent runs on", weight: 1, next: "agent end",
		draw: func(w *World) []string { return w.aNode(func(n *node) bool { return n.absent.IsZero() }) },
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || !n.absent.IsZero() {
				return false
			}
			w.deleteNode(n)
			return true
		}},
	{words: "node return", usage: "NODE: it registers again, and its agent does not start", weight: 1, next: "agent start",
		draw: func(w *World) []string { return w.aNode(func(n *node) bool { return !n.absent.IsZero() }) },
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || n.absent.IsZero() {
				return false
			}
			w.makeNode(n)
			return true
		}},
	{words: "agent end", usage: "NODE: its agent ends, with its pod", weight: 1, next: "node delete",
		draw: func(w *World) []string { return w.aNode(func(n *node) bool { return n.agent != nil }) },
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || n.agent == nil {
				return false
			}
			w.stopAgent(n)
			return true
		}},
	{words: "agent start", usage: "NODE: its agent starts, with a pod", weight: 2,
		draw: func(w *World) []string {
			return w.aNode(func(n *node) bool { return n.agent == nil && n.absent.IsZero() })
		},
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || n.agent != nil || !n.absent.IsZero() {
				return false
			}
			w.startAgent(n)
			return true
		}},
	{words: "webhook refuses", usage: "csi: a webhook refuses each new CSI PV", weight: 1, next: "migrate",
		draw: func(*World) []string { return []string{"csi"} },
		do: func(w *World, _ []string) bool {
			return w.hook("refuses", func(x *apiserver.Write) error {
				if x.Resource == "persistentvolumes" && x.Verb == "create" && x.Who != "god" && field(x.New, "spec", "csi", "driver") != "" {
					return apierrors.NewForbidden(corev1.Resource("persistentvolumes"), x.Name, nil)
				}
				return nil
			})
		}},
}

// forced notes that a person removes the PV by force.
func (j *judge) forced(pv string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.pvs[pv]; v != nil {
		v.removed = time.Now()
	}
}
