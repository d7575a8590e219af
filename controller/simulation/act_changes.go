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
		draw: func(w *World) []string {
			if w.rested {
				return nil
			}
			return []string{}
		},
		do: func(w *World, _ []string) bool {
			w.rested = true
			w.sleep(time.Hour)
			before := w.API.Counts()
			w.sleep(time.Hour)
			w.quiet(before, w.API.Counts())
			return true
		}},
	{words: "pv label", usage: "CLAIM NODE: a tool writes the label of that node on its PV", weight: 1, next: []string{"delete claim", "policy"},
		draw: func(w *World) []string { return w.pvAnd(func() string { return pick(w, w.nodes).name }) },
		do: func(w *World, args []string) bool {
			return w.editPV(arg(args, 0), func(pv *corev1.PersistentVolume) bool {
				pv.Labels = map[string]string{contract.LabelNode: arg(args, 1)}
				return true
			})
		}},
	{words: "pv names", usage: "CLAIM NODE: a tool writes that node's name into the annotation of its PV", weight: 1, next: []string{"delete claim", "policy", "delete pv"},
		draw: func(w *World) []string { return w.pvAnd(func() string { return pick(w, w.nodes).name }) },
		do: func(w *World, args []string) bool {
			return w.editPV(arg(args, 0), func(pv *corev1.PersistentVolume) bool {
				metav1.SetMetaDataAnnotation(&pv.ObjectMeta, contract.AnnProvisionOnNode, arg(args, 1))
				return true
			})
		}},
	{words: "pv strip", usage: "CLAIM: a tool removes our labels and annotations from its PV", weight: 1, next: []string{"delete claim", "policy"},
		draw: func(w *World) []string { return w.aPV() },
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
	nodeAct("orphans delete", ": its agent removes orphans soon", 1, (*node).runs,
		func(w *World, n *node, _ []string) bool { return w.restart(n, strings.Fields(orphansGo)) }).then("disk away"),
	nodeAct("second agent", " POOL: an agent of another form was left running there, and has the pool first", 1,
		func(n *node) bool { return n.runs() && n.second == nil }, func(w *World, n *node, args []string) bool {
			if !n.away[arg(args, 0)].IsZero() {
				return false
			}
			w.stopAgent(n)
			n.second = &process{who: fmt.Sprintf("second/%s#1", n.name), done: make(chan struct{}), node: n}
			must(w.runAgent(n.second, []string{"--node-name=" + n.name, "--provision=hostpath", "--pv-dir=" + n.base + "/" + args[0]}))
			time.Sleep(10 * time.Second)
			w.startAgent(n)
			return true
		}).with(func(w *World) string { return pick(w, pools[:2]) }),
	{words: "webhook keeps", usage: "policies: a webhook puts the reclaim policy of each PV back", weight: 1, next: []string{"migrate"},
		draw: func(*World) []string { return []string{"policies"} },
		do: func(w *World, _ []string) bool {
			return w.hook("keeps", false, func(x *apiserver.Write) error {
				if was := field(x.Old, "spec", "persistentVolumeReclaimPolicy"); x.Resource == "persistentvolumes" && x.Who != "god" && was != "" && x.New != nil {
					x.New["spec"].(object)["persistentVolumeReclaimPolicy"] = was
				}
				return nil
			})
		}},
	{words: "webhook strips", usage: "annotations: a webhook removes the annotations of each new PV", weight: 1, next: []string{"migrate"},
		draw: func(*World) []string { return []string{"annotations"} },
		do: func(w *World, _ []string) bool {
			return w.hook("strips", false, func(x *apiserver.Write) error {
				if x.Resource == "persistentvolumes" && x.Verb == "create" && x.Who != "god" && x.New != nil {
					delete(x.New["metadata"].(object), "annotations")
				}
				return nil
			})
		}},
}

// hook adds a webhook, once. One that lasts is a policy of the cluster: it does not end with the faults.
func (w *World) hook(name string, lasts bool, change func(*apiserver.Write) error) bool {
	f := &w.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hooks[name].change != nil {
		return false
	}
	if f.hooks == nil {
		f.hooks = map[string]hook{}
	}
	f.hooks[name] = hook{change, lasts}
	return true
}

// pvAnd draws the claim of a PV and one more argument.
func (w *World) pvAnd(more func() string) []string {
	if c := w.aPV(); c != nil {
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
		v.handed, v.claim, v.name, v.wanted, v.given, v.tenant = true, claim.UID, claim.Namespace+"/"+claim.Name, "", "", j.tenant
	}
}
