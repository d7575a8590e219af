package simulation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Rules are what must be true, by the name that violations have.
var Rules = map[string]string{
	"DISKS":   "bytes of a claim that lives, of a pool, or of the host, are never wiped, nor given to another claim",
	"TWICE":   "a disk is never two PVs that a claim has or can have",
	"TAKEN":   "a disk that the host took since it was offered is not given to a claim without an event",
	"ADVICE":  "the annotation that a state asks for ends the state",
	"ABSENT":  "the disk of a node that has not existed for half an hour, and that no claim had, is not given to a claim",
	"OWNED":   "a PV of a claim that lives is not deleted with a Node object",
	"BYTES":   "data of a claim that lives, of a PV that is to be kept, or of a volume that was not to be deleted, is never removed, wiped or given to another claim",
	"COPY":    "a copy has all data of the claim that is its source, and of no other of its name",
	"COPIED":  "an hour after the last fault each claim whose source can be copied is Bound, and no copy has left anything",
	"SIZE":    "no process writes that a claim or PV has more bytes than a disk has",
	"KEPT":    "a deleted volume is kept for as long as its agent was told, unless room is needed",
	"GRACE":   "a claim, PV or Node annotation is given up only by the rule of docs/node-gone.md, after the grace period of this loss",
	"SILENT":  "an hour after the last fault every claim is Bound and has what it requests, or has an event of ours",
	"STUCK":   "an hour after the last fault everything deleted is gone, and no finalizer is left",
	"BUSY":    "the requests of each process in a quiet hour stay below a bound",
	"HIDDEN":  "the disk of a pool is mounted where its agents have it while claims have volumes on it, and no other pool uses it",
	"SETTING": "a setting that is misspelt keeps its last value",
	"ROLLOUT": "agents are replaced within an hour where nothing is wrong, whatever is wrong with a disk of another node",
	"CLOCK":   "no loop runs without a pause, and nothing waits for a lock that is held over a request",
	"PANICS":  "nothing panics",
	"ENDS":    "a process ends within a minute of SIGTERM, and not by itself",
}

const (
	grace = 5 * time.Minute // of lost nodes
	// asideFor is how long a volume may be set aside before a deletion was decided: the agent
	// restores it after an hour.
	asideFor = 2 * time.Hour
)

// givenUp judges that the operator gives a volume up. The caller holds the lock.
func (j *judge) givenUp(v *volume, how string) {
	v.given = how
	if v.foreign {
		j.blameLocked("GRACE", "the volume of claim %s, made in another cluster for a node that has not joined this one: %s", v.name, how)
	}
	n := j.world.node(v.node)
	if n == nil {
		return
	}
	if _, err := os.Stat(j.place(v)); os.IsNotExist(err) && n.away[v.pool].IsZero() {
		return // the pool is there, and the volume is not
	}
	lost, since := time.Time{}, ""
	absent := n.absent
	switch {
	case time.Since(n.back) < time.Second: // it came back between the operator's question and its write
		absent = n.was
	case n.agent != nil && n.left.IsZero():
		absent = time.Time{} // a Node that is gone is there while its agent is ready
	case n.agent != nil && !absent.IsZero() && n.left.After(absent):
		absent = n.left
	case !absent.IsZero() && n.ended.After(absent):
		absent = n.ended
	}
	for at, what := range map[time.Time]string{absent: "its Node and agent are gone", n.away[v.pool]: "its disk is away"} {
		if !at.IsZero() && (lost.IsZero() || at.Before(lost)) {
			lost, since = at, what
		}
	}
	switch {
	case lost.IsZero():
		j.blameLocked("GRACE", "the volume of claim %s, pool %s of %s: %s, and its Node and disk are there", v.name, v.pool, v.node, how)
	case time.Since(lost) < j.grace:
		j.blameLocked("GRACE", "the volume of claim %s, pool %s of %s: %s %s after the loss (%s); the grace period is %s",
			v.name, v.pool, v.node, how, time.Since(lost).Truncate(time.Second), since, j.grace)
	}
}

// bytes judges that all data is where it belongs.
func (j *judge) bytes() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keptBytes()
	for _, v := range j.volumes {
		if v.mark == "" || v.wanted != "" {
			continue
		}
		have, err := os.ReadFile(filepath.Join(j.place(v), dataFile))
		switch {
		case err == nil && string(have) == v.mark:
			v.missed = time.Time{}
		case err == nil:
			j.blameLocked("BYTES", "the directory of claim %s has other data", v.name)
			v.wanted = "blamed"
		case v.missed.IsZero() && j.setAside(v):
			v.missed = time.Now()
		case j.setAside(v) && time.Since(v.missed) < asideFor:
		default:
			j.blameLocked("BYTES", "the data of claim %s (policy %s, pool %s of %s) is gone without a request", v.name, v.policy, v.pool, v.node)
			v.wanted = "blamed"
		}
	}
}

// setAside reports whether the trash of the pool, or what it keeps, has the data of a volume.
func (j *judge) setAside(v *volume) bool { return j.isIn(v, "trash") || j.isKept(v) }

// afterFaults judges the cluster an hour after the last fault.
func (w *World) afterFaults() {
	said, nothing := map[string]bool{}, w.uninstalled()
	for _, e := range must1(w.god.CoreV1().Events("").List(ctx, metav1.ListOptions{})).Items {
		said[string(e.InvolvedObject.UID)] = true
	}
	for _, c := range must1(w.god.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})).Items {
		switch {
		case c.Namespace == namespace && c.DeletionTimestamp != nil: // a holder keeps it for the pool's volumes
		case c.DeletionTimestamp != nil:
			w.judge.blame("STUCK", "claim %s was deleted %s ago, and has the finalizers %v", c.Name, since(c.DeletionTimestamp), c.Finalizers)
		case c.Status.Phase == corev1.ClaimLost && w.judge.keeps(c.UID):
			w.judge.blame("STUCK", "claim %s is Lost, and its data is there", c.Name)
		case w.isShort(&c, said) && !nothing:
			w.judge.blame("SILENT", "claim %s has %s and requests %s, without an event", c.Name, c.Status.Capacity.Storage(),
				c.Spec.Resources.Requests.Storage())
		case c.Status.Phase == corev1.ClaimBound, c.Status.Phase == corev1.ClaimLost, said[string(c.UID)], nothing, w.told(&c):
		default:
			w.judge.blame("SILENT", "claim %s is %s, without an event%s", c.Name, c.Status.Phase, w.beside(&c))
		}
	}
	for _, pv := range must1(w.god.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})).Items {
		if w.judge.owed(&pv) {
			w.judge.blame("STUCK", "PV %s is kept, and it was Bound to a claim, which was deleted", pv.Name)
		}
		switch {
		case nothing, said[string(pv.UID)], pv.Status.Phase == corev1.VolumeBound: // Kubernetes keeps it for its claim
		case strings.HasPrefix(pv.Name, "foreign-"): // no node of this cluster has it
		case pv.DeletionTimestamp != nil:
			w.judge.blame("STUCK", "PV %s was deleted %s ago, and has the finalizers %v, without an event%s", pv.Name, since(pv.DeletionTimestamp), pv.Finalizers, w.around(pv.Name))
		case pv.Status.Phase == corev1.VolumeReleased && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
			w.judge.blame("STUCK", "PV %s is Released with policy Delete, without an event%s", pv.Name, w.around(pv.Name))
		}
	}
}

// isShort reports whether a claim that is Bound has less than it requests, the agent of its node could
// serve that, and no event about claim or PV says why it does not.
func (w *World) isShort(c *corev1.PersistentVolumeClaim, said map[string]bool) bool {
	if c.Status.Phase != corev1.ClaimBound || c.Status.Capacity.Storage().Cmp(*c.Spec.Resources.Requests.Storage()) >= 0 || said[string(c.UID)] {
		return false
	}
	pv, err := w.god.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
	if err != nil || said[string(pv.UID)] {
		return false
	}
	w.judge.mu.Lock()
	v := w.judge.pvs[pv.Name]
	w.judge.mu.Unlock()
	if v == nil {
		return false
	}
	n := w.node(v.node)
	return n != nil && n.agent != nil && n.second == nil && len(n.away) == 0 && !n.renamed &&
		!slices.ContainsFunc(n.flags, func(f string) bool { return strings.HasPrefix(f, "--provision") })
}

// told reports whether no process of ours has to say why a claim waits: its class does not exist, or the claim
// names a PV that is another's by now, and Kubernetes says so; or it waits for a raw disk to be added.
func (w *World) told(c *corev1.PersistentVolumeClaim) bool {
	class, err := w.god.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	if err != nil || class.Name == rawClass {
		return true
	}
	pv, err := w.god.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
	return c.Spec.VolumeName != "" && err == nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Name != c.Name
}

// due notes that the PV of a claim that a person deletes has to go: it is Bound, and its agent had
// minutes to see that.
func (j *judge) due(c *corev1.PersistentVolumeClaim) {
	pv, err := j.world.god.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
	if err != nil || c.Spec.VolumeName == "" || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		pv.Status.Phase != corev1.VolumeBound || contract.ClaimUID(pv) != string(c.UID) || time.Since(pv.CreationTimestamp.Time) < minutes {
		return // or a PV of that name was applied for another claim, or just now
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.pvs[pv.Name]; v != nil && !v.handed && !v.edited && !v.bound.IsZero() && time.Since(v.bound) > minutes {
		n := j.world.node(v.node)
		seen := n != nil && n.absent.IsZero() && time.Since(n.back) > minutes // an agent without its Node binds nothing
		if seen && n.agent != nil && time.Since(n.agent.began) > minutes && len(n.away) == 0 && !n.renamed && n.second == nil {
			v.pv = pv.UID
		}
	}
}

// minutes are enough for an agent to see what it watches.
const minutes = 3 * time.Minute

// owed reports whether a PV has to be gone. It does not while another agent has the pools of its node: the
// PV then has an event.
func (j *judge) owed(pv *corev1.PersistentVolume) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := j.pvs[pv.Name]
	if v == nil || v.pv != pv.UID || v.edited || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		pv.Status.Phase != corev1.VolumeReleased {
		return false
	}
	n := j.world.node(v.node)
	return !n.renamed && n.second == nil
}

func since(t *metav1.Time) time.Duration { return time.Since(t.Time).Truncate(time.Second) }

// keeps reports whether the data of a claim is on a disk, and the operator or a person did not take
// its PV away.
func (j *judge) keeps(claim types.UID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.volumes, func(v *volume) bool {
		return v.claim == claim && v.mark != "" && v.wanted == "" && v.given == "" && v.removed.IsZero()
	})
}

// uninstalled reports whether nothing of ours runs although there could: the resource was not made yet, or
// was deleted, by force as volumes were left.
func (w *World) uninstalled() bool {
	i := w.inst.Load()
	if w.kind != ofInstalled || i == nil {
		return w.kind == ofInstalled
	}
	var all v1beta1.HostPathProvisionerList
	must(i.people.List(ctx, &all))
	return len(all.Items) == 0
}

// around says what keeps a PV where it is without a fault.
func (w *World) around(pv string) string {
	switch v := w.judge.volumeOfPV(pv); {
	case v != nil && w.node(v.node) != nil && w.node(v.node).agent == nil:
		return "; no agent runs on its node"
	}
	return ""
}

// beside says if an agent of another form runs on the claim's node.
func (w *World) beside(c *corev1.PersistentVolumeClaim) string {
	switch n := w.node(c.Labels[wantsNode]); {
	case n != nil && c.Annotations[contract.AnnStorageProvisioner] == "":
		return ", and the simulated scheduler chose no node; its Node is absent since " + n.absent.String()
	case n != nil && n.second != nil:
		return ", and another agent has its pool"
	case n != nil && n.agent == nil:
		return ", and no agent runs on its node"
	}
	return ""
}
