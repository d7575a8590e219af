package simulation

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// serverActs are what happens to the API server and the controller-manager.
var serverActs = []act{
	{words: "manager late", usage: "DURATION: each step of the controller-manager is late by that", weight: 3,
		draw: func(w *World) []string { return []string{pick(w, lags)} },
		do: func(w *World, args []string) bool {
			d, ok := duration(arg(args, 0))
			w.faults.mu.Lock()
			defer w.faults.mu.Unlock()
			w.faults.manager = d
			return ok
		}},
	{words: "server refuses", usage: "PROGRAM CODE DURATION: all its requests get that code", weight: 1,
		draw: func(w *World) []string {
			return []string{pick(w, []string{"operator", "agent/" + pick(w, w.nodes).name}), pick(w, []string{"403", "409", "500", "503"}), pick(w, lags[1:])}
		},
		do: func(w *World, args []string) bool {
			d, ok := duration(arg(args, 2))
			code := int(number(arg(args, 1)))
			if !ok || code < 400 || code > 599 {
				return false
			}
			w.faults.mu.Lock()
			defer w.faults.mu.Unlock()
			w.faults.refused = append(w.faults.refused, refusal{who: arg(args, 0), answer: apiserver.Fault{Code: code}, until: time.Now().Add(d)})
			return true
		}},
	{words: "server clock", usage: "DURATION: its clock is ahead by that, or behind if that is negative", weight: 1,
		draw: func(w *World) []string { return []string{pick(w, []string{"-45s", "-5s", "0s", "5s", "45s"})} },
		do: func(w *World, args []string) bool {
			d, err := time.ParseDuration(arg(args, 0))
			if err != nil || d.Abs() > mostAhead {
				return false
			}
			w.faults.mu.Lock()
			defer w.faults.mu.Unlock()
			w.faults.ahead = d
			return true
		}},
	{words: "server forgets", usage: "watches begin again with a list", weight: 1,
		draw: func(*World) []string { return []string{} },
		do:   func(w *World, _ []string) bool { w.API.Expire(); return true }},
}

// mostAhead is how much the clocks of a cluster differ. Agents allow for a minute.
const mostAhead = 50 * time.Second

func duration(s string) (time.Duration, bool) {
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

// peopleActs are what administrators do.
var peopleActs = []act{
	{words: "policy", usage: "CLAIM Retain|Delete: an administrator sets the policy of its PV", weight: 1,
		draw: func(w *World) []string {
			return w.pvAnd(func() string { return pick(w, []string{"Retain", "Retain", "Delete"}) })
		},
		do: func(w *World, args []string) bool {
			policy, kept := corev1.PersistentVolumeReclaimPolicy(arg(args, 1)), ""
			done := w.editPV(arg(args, 0), func(pv *corev1.PersistentVolume) bool {
				changed := pv.Spec.PersistentVolumeReclaimPolicy != policy
				if policy == corev1.PersistentVolumeReclaimRetain {
					kept = pv.Name
				}
				if changed && policy == corev1.PersistentVolumeReclaimDelete && w.letGo(pv) {
					w.judge.asked(pv.Name)
				}
				pv.Spec.PersistentVolumeReclaimPolicy = policy
				return changed
			})
			if done && kept != "" {
				w.judge.spared(kept)
			}
			return done
		}, next: []string{"delete claim", "delete pv"}},
	{words: "delete pv", usage: "CLAIM: an administrator deletes its PV", weight: 1, next: []string{"delete claim", "pv apply", "disk back"},
		draw: func(w *World) []string { return w.aPV() },
		do: func(w *World, args []string) bool {
			pv := w.pvOf(arg(args, 0))
			if pv == nil || pv.DeletionTimestamp != nil {
				return false
			}
			must(w.god.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{}))
			return true
		}},
	{words: "class", usage: "CLASS keep|release|delete: its policy for lost nodes changes", weight: 1,
		draw: func(w *World) []string { return []string{pick(w, w.classNames()), pick(w, policies)} },
		do: func(w *World, args []string) bool {
			classes := w.god.StorageV1().StorageClasses()
			c, err := classes.Get(ctx, arg(args, 0), metav1.GetOptions{})
			if err != nil {
				return false
			}
			c.Annotations[contract.AnnNodeGone] = arg(args, 1)
			must1(classes.Update(ctx, c, metav1.UpdateOptions{}))
			return true
		}},
	{words: "copy", usage: "NODE UID: a volume of a former cluster is copied to the node, and its PV applied, whose claim is not there", weight: 2,
		draw: func(w *World) []string {
			w.claims++
			return []string{pick(w, w.nodes).name, fmt.Sprintf("11111111-0000-4000-8000-%012d", w.claims)}
		},
		do: func(w *World, args []string) bool {
			return w.inst.Load() == nil && w.copyOld(arg(args, 0), arg(args, 1)) // an installation has no agents for hostPath volumes
		}},
	{words: "take over", usage: "CLAIM NODE SIZE: a volume of an older provisioner is there, whose PV has a MiB, and whose claim requests SIZE", weight: 1, next: []string{"policy", "delete claim", "agent restart"},
		draw: func(w *World) []string {
			return []string{w.newName(), pick(w, w.nodes).name, pick(w, []string{"1Mi", "8Mi", "1Pi"})}
		},
		do: func(w *World, args []string) bool {
			return w.inst.Load() == nil && w.takeOver(arg(args, 0), arg(args, 1), arg(args, 2))
		}},
}

// copyOld makes a directory of an older provisioner and applies its PV, with the policy Delete.
func (w *World) copyOld(node, uid string) bool {
	n := w.node(node)
	if n == nil {
		return false
	}
	pv, dir := oldPV(n, "old-"+uid, types.UID(uid))
	if os.Mkdir(dir, 0o777) != nil {
		return false
	}
	must(os.WriteFile(filepath.Join(dir, dataFile), []byte(uid), 0o644))
	w.judge.knows(&volume{node: n.name, pool: "hp", dir: pv.Name, claim: types.UID(uid), name: tenant + "/old-" + uid, mark: uid})
	_, err := w.god.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	return err == nil
}

// takeOver makes a claim, and directory and PV that an older provisioner made for it before it grew. No
// agent runs on the node meanwhile.
func (w *World) takeOver(name, node, size string) bool {
	n := w.node(node)
	bytes, err := resource.ParseQuantity(size)
	if err != nil || n == nil || !n.runs() {
		return false
	}
	w.stopAgent(n)
	defer w.startAgent(n)
	spec := corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: bytes}}}
	if !w.apply(tenant, name, "hp", spec, map[string]string{contract.AnnSelectedNode: node}, map[string]string{wantsNode: node}) {
		return false
	}
	claim := must1(w.god.CoreV1().PersistentVolumeClaims(tenant).Get(ctx, name, metav1.GetOptions{}))
	pv, dir := oldPV(n, name, claim.UID)
	must(os.Mkdir(dir, 0o777))
	must1(w.god.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}))
	for pv.Status.Phase != corev1.VolumeBound {
		time.Sleep(time.Second)
		pv = must1(w.god.CoreV1().PersistentVolumes().Get(ctx, pv.Name, metav1.GetOptions{}))
	}
	time.Sleep(time.Second)
	return true
}

// oldPV is the PV of a MiB, with the policy Delete, that an older provisioner made for a claim, and its
// directory.
func oldPV(n *node, name string, uid types.UID) (pv *corev1.PersistentVolume, dir string) {
	dir = filepath.Join(n.base, "hp", "pvc-"+string(uid))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name, UID: uid},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("hp"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}}}
	own := contract.Own(false)
	pv = own.PV(filepath.Base(dir), dir, claim, &storagev1.StorageClass{Provisioner: contract.HostPathProvisioner},
		contract.Place{Node: n.name, Hostname: "host-" + n.name}, corev1.PersistentVolumeReclaimDelete)
	delete(pv.Annotations, contract.AnnPool)
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: tenant, Name: claim.Name, UID: claim.UID}
	return pv, dir
}

// knows adds a volume that no agent made.
func (j *judge) knows(v *volume) {
	j.mu.Lock()
	defer j.mu.Unlock()
	v.tenant = j.tenant
	j.volumes = append(j.volumes, v)
}
