package simulation

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// changeActs are what people and other programs change of objects that are the product's.
var changeActs = []act{
	{words: "rest", usage: "for two hours nothing happens, and the requests of the second are judged", weight: 1,
		draw: func(*World) []string { return []string{} },
		do: func(w *World, _ []string) bool {
			w.sleep(time.Hour)
			before := w.API.Counts()
			w.sleep(time.Hour)
			w.quiet(before, w.API.Counts())
			return true
		}},
	{words: "pv label", usage: "CLAIM NODE: a tool writes the label of that node on its PV", weight: 1, next: "policy",
		draw: func(w *World) []string { return w.claimAnd(func() string { return pick(w, w.nodes).name }) },
		do: func(w *World, args []string) bool {
			return w.editPV(arg(args, 0), func(pv *corev1.PersistentVolume) bool {
				pv.Labels = map[string]string{contract.LabelNode: arg(args, 1)}
				return true
			})
		}},
	{words: "pv strip", usage: "CLAIM: a tool removes our labels and annotations from its PV", weight: 1, next: "policy",
		draw: func(w *World) []string { return w.aClaim() },
		do: func(w *World, args []string) bool {
			return w.editPV(arg(args, 0), func(pv *corev1.PersistentVolume) bool {
				pv.Labels = nil
				maps.DeleteFunc(pv.Annotations, func(k, _ string) bool { return strings.HasPrefix(k, "hostpath-provisioner.kubevirt.io/") })
				return true
			})
		}},
	{words: "give pv", usage: "CLAIM NEW: an administrator gives its Released PV to another claim", weight: 1,
		draw: func(w *World) []string {
			for _, pv := range must1(w.god.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})).Items {
				if pv.Status.Phase == corev1.VolumeReleased && pv.Spec.ClaimRef != nil {
					return []string{pv.Spec.ClaimRef.Name, w.newName()}
				}
			}
			return nil
		},
		do: func(w *World, args []string) bool { return w.givePV(arg(args, 0), arg(args, 1)) }},
	{words: "orphans delete", usage: "NODE: its agent removes orphans that are an hour old", weight: 1, next: "rest",
		draw: func(w *World) []string { return w.aNode(func(n *node) bool { return n.agent != nil }) },
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || n.agent == nil {
				return false
			}
			w.stopAgent(n)
			n.flags = []string{"--orphans=delete", "--orphan-grace=1h"}
			w.startAgent(n)
			return true
		}},
	{words: "second agent", usage: "NODE POOL: an agent of another form was left running there, and has the pool first", weight: 1,
		draw: func(w *World) []string {
			if n := w.aNode(func(n *node) bool { return n.agent != nil && n.second == nil }); n != nil {
				return append(n, pick(w, pools[:2]))
			}
			return nil
		},
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || n.agent == nil || n.second != nil || !n.away[arg(args, 1)].IsZero() {
				return false
			}
			w.stopAgent(n)
			n.second = &process{who: fmt.Sprintf("second/%s#1", n.name), done: make(chan struct{}), node: n}
			w.runAgent(n.second, []string{"--node-name=" + n.name, "--provision=hostpath", "--pv-dir=" + n.base + "/" + arg(args, 1)})
			time.Sleep(10 * time.Second)
			w.startAgent(n)
			return true
		}},
	{words: "webhook keeps", usage: "policies: a webhook puts the reclaim policy of each PV back", weight: 1, next: "migrate",
		draw: func(*World) []string { return []string{"policies"} },
		do: func(w *World, _ []string) bool {
			return w.hook("keeps", func(x *apiserver.Write) error {
				if was := field(x.Old, "spec", "persistentVolumeReclaimPolicy"); x.Resource == "persistentvolumes" && x.Who != "god" && was != "" && x.New != nil {
					x.New["spec"].(object)["persistentVolumeReclaimPolicy"] = was
				}
				return nil
			})
		}},
	{words: "webhook strips", usage: "annotations: a webhook removes the annotations of each new PV", weight: 1, next: "migrate",
		draw: func(*World) []string { return []string{"annotations"} },
		do: func(w *World, _ []string) bool {
			return w.hook("strips", func(x *apiserver.Write) error {
				if x.Resource == "persistentvolumes" && x.Verb == "create" && x.Who != "god" && x.New != nil {
					delete(x.New["metadata"].(object), "annotations")
				}
				return nil
			})
		}},
}

// hook adds a webhook, once.
func (w *World) hook(name string, change func(*apiserver.Write) error) bool {
	f := &w.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hooks[name] != nil {
		return false
	}
	if f.hooks == nil {
		f.hooks = map[string]func(*apiserver.Write) error{}
	}
	f.hooks[name] = change
	return true
}

// claimAnd draws a claim and one more argument.
func (w *World) claimAnd(more func() string) []string {
	if c := w.aClaim(); c != nil {
		return append(c, more())
	}
	return nil
}

// givePV makes a claim for the PV of another, which is gone.
func (w *World) givePV(former, name string) bool {
	pv := w.pvOf(former)
	if pv == nil || pv.Status.Phase != corev1.VolumeReleased || pv.DeletionTimestamp != nil {
		return false
	}
	claim, err := w.god.CoreV1().PersistentVolumeClaims(tenant).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &pv.Spec.StorageClassName, VolumeName: pv.Name,
			AccessModes: pv.Spec.AccessModes, Resources: corev1.VolumeResourceRequirements{Requests: pv.Spec.Capacity}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false
	}
	w.judge.hand(pv.Name, claim)
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: tenant, Name: name}
	_, err = w.god.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{})
	return err == nil
}

// hand notes that an administrator gives the PV to another claim, whose data it has from now on.
func (j *judge) hand(pv string, claim *corev1.PersistentVolumeClaim) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.pvs[pv]; v != nil {
		v.handed, v.claim, v.name, v.wanted, v.given = true, claim.UID, claim.Namespace+"/"+claim.Name, "", ""
	}
}
